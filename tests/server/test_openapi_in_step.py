"""`openapi.yaml` is what the running server says and does."""

from pathlib import Path

import httpx
import yaml
from openapi_spec_validator import validate

from agentcore.encoding import type_of
from agentcore.events import NumberedEvent
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


def test_the_server_serves_it(daemon: Daemon) -> None:
    answer = httpx.get(f"{daemon.url}/openapi.yaml", headers={"Authorization": f"Bearer {daemon.token}"})
    assert (answer.status_code, answer.content) == (200, FILE.read_bytes())
