"""Failures in the machine's own files are told in full as well."""

import pytest

pytest.register_assert_rewrite(*(f"tests.property.{name}" for name in ("life", "checks", "told", "reader")))
