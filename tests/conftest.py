"""Fixtures that every room's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, running


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A real server in a process of its own, with the built-in script as its model."""
    with running(tmp_path, "--model", "scripted/demo") as daemon:
        yield daemon
