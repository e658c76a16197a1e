"""`openapi.yaml` is what the running server says and does."""

import ast
import re
from pathlib import Path
from typing import get_args

import httpx
import jsonschema_rs
import yaml
from openapi_spec_validator import validate

from agentcore.encoding import type_of
from agentcore.errors import BadRequest, ProviderError, ProviderErrorKind, StorageUnavailable
from agentcore.events import NumberedEvent, StopReason
from server.openapi import render
from server.routes.all import ENDPOINTS
from tests.daemon import Daemon

FILE = Path(__file__).resolve().parents[2] / "openapi.yaml"
DOCUMENT = yaml.safe_load(FILE.read_text())


def test_the_committed_file_is_in_step_with_the_code() -> None:
    assert FILE.read_text() == render(), "run: python -m server.openapi"


def test_it_is_valid_openapi() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.")


def test_every_endpoint_is_in_it_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}


def test_every_event_is_in_the_union() -> None:
    union = DOCUMENT["components"]["schemas"]["Event"]["discriminator"]["mapping"]
    numbered = {type_of(kind.model_construct()) for kind in NumberedEvent.__args__}
    assert set(union) == numbered | {"lagging", "gap", "server_stopping", "snapshot"}


def codes_of(*makers: str) -> set[str]:
    """Every code that the source hands to one of these functions or classes, by its place or as `code`: a word, or
    the name of one in the same file."""
    codes: set[str] = set()
    for folder in ("agentcore", "server"):
        for file in (FILE.parent / folder).rglob("*.py"):
            tree = ast.parse(file.read_text())
            assigned = [statement for statement in tree.body if isinstance(statement, ast.Assign)]
            known = {ast.unparse(one.targets[0]): one.value for one in assigned}
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in makers:
                    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "code")]
                    words = [known.get(one.id) if isinstance(one, ast.Name) else one for one in given]
                    codes |= {str(word.value) for word in words if isinstance(word, ast.Constant)}
    return {code for code in codes if re.fullmatch(r"[a-z_]+", code)}


def described(event: str) -> set[str]:
    """All words in backticks in the description of an event's `code`."""
    text = DOCUMENT["components"]["schemas"][event]["properties"]["code"]["description"]
    return set(re.findall(r"`([a-z_]+)`", text))


def test_every_code_of_a_notice_is_listed() -> None:
    assert described("NoticeEvent") == codes_of("Notice", "notice", "_tell") - {"info", "warning"}


def test_every_code_of_an_error_is_listed() -> None:
    vendors = {ProviderError(kind, "").reason for kind in get_args(ProviderErrorKind)}
    ours = {error.code for error in (BadRequest, StorageUnavailable)}  # what a run turns into its error besides
    run = codes_of("RunFailed", "Verdict", "Error") - set(get_args(StopReason))
    assert described("ErrorEvent") == vendors | ours | run


def test_a_patch_is_described_as_it_is_taken() -> None:
    patch = DOCUMENT["components"]["schemas"]["PatchSession"]
    assert patch["minProperties"] == 1
    validator = jsonschema_rs.validator_for({**patch, "components": DOCUMENT["components"]})
    for name in patch["properties"]:
        assert not validator.is_valid({name: None})
    assert not validator.is_valid({})
    assert validator.is_valid({"title": "Ours", "mode": "plan", "max_turns": 3})


def test_the_server_serves_it(daemon: Daemon) -> None:
    answer = httpx.get(f"{daemon.url}/openapi.yaml", headers={"Authorization": f"Bearer {daemon.token}"})
    assert (answer.status_code, answer.content) == (200, FILE.read_bytes())
