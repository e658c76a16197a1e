"""The document that is generated from endpoints: valid, complete, and the same each time."""

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
import yaml
from openapi_spec_validator import validate
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agentcore import encoding, events
from agentcore.values import Value
from server import openapi, problems
from server.models_schema import field_texts
from server.openapi import document, render
from server.routes.table import Endpoint


class Health(Value):
    ok: bool
    """Always true."""


class PromptBody(Value):
    text: str = Field(min_length=1)
    resume_last: bool | None = Field(default=None, alias="continue")
    """Whether to go on."""


class Replay(Value):
    deltas: tuple[events.TextDelta, ...]


class AllOptional(Value):
    wait: bool = False


class StreamQuery(Value):
    after: int | None = Field(default=None, ge=0)
    """The last number that was seen."""
    ticket: str | None = None


class StreamHeaders(Value):
    last_event_id: int | None = None


class Snapshot(Value):
    type: str = Field(default="snapshot", json_schema_extra={"const": "snapshot"})
    last_seq: int
    session: Health


async def get_health(_request: Request) -> Response:
    """Tell whether the server runs."""
    raise NotImplementedError


async def post_prompt(_request: Request) -> Response:
    raise NotImplementedError


async def post_cancel(_request: Request) -> Response:
    raise NotImplementedError


async def get_events(_request: Request) -> Response:
    raise NotImplementedError


async def get_document(_request: Request) -> Response:
    raise NotImplementedError


async def get_bytes(_request: Request) -> Response:
    raise NotImplementedError


async def post_bytes(_request: Request) -> Response:
    raise NotImplementedError


SESSION = "/v1/sessions/{id}"
ENDPOINTS = (
    Endpoint("GET", "/v1/health", get_health, "Health", {200: Health}, public=True),
    Endpoint(
        "POST",
        f"{SESSION}/prompt",
        post_prompt,
        "Prompt",
        {202: Health},
        PromptBody,
        problems=("session_busy", "draining"),
    ),
    Endpoint("POST", f"{SESSION}/cancel", post_cancel, "Cancel", {200: Replay, 204: None}, AllOptional),
    Endpoint(
        "GET", f"{SESSION}/events", get_events, "Events", {200: None}, None, StreamQuery, StreamHeaders, stream=True
    ),
    Endpoint("GET", "/files/{name:path}", get_document, "File", {200: None}, media_type="application/yaml"),
    Endpoint("GET", "/bytes", get_bytes, "Bytes", {200: None}, media_type="*/*"),
    Endpoint("POST", "/bytes", post_bytes, "Upload", {201: Health}, raw_body=("image/png", "text/*")),
)


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(ENDPOINTS, [Snapshot])


def operation(described: dict[str, Any], path: str, method: str) -> dict[str, Any]:
    found: dict[str, Any] = described["paths"][path][method]
    return found


def test_the_document_is_valid(described: dict[str, Any]) -> None:
    assert validate(described) is None  # raises for a document that is not


def test_the_text_is_the_document_and_always_the_same(described: dict[str, Any]) -> None:
    text = render(ENDPOINTS, [Snapshot])
    assert yaml.safe_load(text) == described
    assert text == render(ENDPOINTS, [Snapshot])


def test_every_endpoint_is_in_it_and_nothing_else(described: dict[str, Any]) -> None:
    found = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert found == {(endpoint.method, endpoint.path.replace(":path", "")) for endpoint in ENDPOINTS}


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        return set().union(*(references(item) for item in node)) if isinstance(node, list) else set()

    names = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert references(described) <= names


def test_the_failures_of_an_endpoint_are_by_status(described: dict[str, Any]) -> None:
    responses = operation(described, f"{SESSION}/prompt", "post")["responses"]
    assert {status: answer["description"] for status, answer in responses.items()} == {
        "202": "Accepted",
        "400": "`bad_request`",
        "401": "`unauthorized`",
        "403": "`forbidden_host`, `forbidden_origin`",
        "409": "`session_busy`",
        "413": "`body_too_large`",
        "415": "`unsupported_media_type`",
        "422": "`unprocessable`",
        "500": "`internal`",
        "503": "`draining`",
    }
    assert "Retry-After" in responses["503"]["headers"]


def test_a_public_endpoint_needs_no_token(described: dict[str, Any]) -> None:
    health = operation(described, "/v1/health", "get")
    assert health["security"] == []
    assert "401" not in health["responses"]
    assert health["description"] == "Tell whether the server runs."


def test_a_stream_takes_a_ticket_instead_of_the_token(described: dict[str, Any]) -> None:
    stream = operation(described, f"{SESSION}/events", "get")
    assert stream["security"] == [{"token": []}, {"ticket": []}]
    assert [(parameter["in"], parameter["name"]) for parameter in stream["parameters"]] == [
        ("path", "id"),
        ("query", "after"),
        ("header", "Last-Event-ID"),
    ]


def test_a_parameter_is_there_or_not_but_never_null(described: dict[str, Any]) -> None:
    after = operation(described, f"{SESSION}/events", "get")["parameters"][1]
    assert after["schema"] == {"type": "integer", "minimum": 0}
    assert after["description"] == "The last number that was seen."


def test_a_body_that_may_be_empty_is_not_required(described: dict[str, Any]) -> None:
    required = {
        path: operation(described, f"{SESSION}/{path}", "post")["requestBody"]["required"]
        for path in ("prompt", "cancel")
    }
    assert required == {"prompt": True, "cancel": False}


def test_fields_have_their_json_names_and_their_sentences(described: dict[str, Any]) -> None:
    field = described["components"]["schemas"]["PromptBody"]["properties"]["continue"]
    assert field["description"] == "Whether to go on."
    assert field_texts(PromptBody) == {"continue": "Whether to go on."}


def test_an_answer_without_a_body_has_no_content(described: dict[str, Any]) -> None:
    assert "content" not in operation(described, f"{SESSION}/cancel", "post")["responses"]["204"]


def test_a_file_is_text_of_its_media_type(described: dict[str, Any]) -> None:
    answer = operation(described, "/files/{name}", "get")["responses"]["200"]
    assert answer["content"] == {"application/yaml": {"schema": {"type": "string"}}}


def test_bytes_are_described_by_their_media_types_alone(described: dict[str, Any]) -> None:
    sent = operation(described, "/bytes", "post")
    assert sent["requestBody"] == {"required": True, "content": {"image/png": {}, "text/*": {}}}
    assert {"400", "413", "415"} <= set(sent["responses"])
    assert operation(described, "/bytes", "get")["responses"]["200"]["content"] == {"*/*": {}}


def test_every_event_is_in_the_union_under_its_type(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    models = [*get_args(events.NumberedEvent), *get_args(events.ControlEvent)]
    types = {encoding.type_of(model.model_construct()) for model in models} | {"snapshot"}
    assert set(schemas["Event"]["discriminator"]["mapping"]) == types
    assert len(schemas["Event"]["oneOf"]) == len(types)
    assert all(
        "type" in schemas[reference["$ref"].rpartition("/")[2]]["required"] for reference in schemas["Event"]["oneOf"]
    )


def test_the_data_of_a_stream_is_an_event(described: dict[str, Any]) -> None:
    content = operation(described, f"{SESSION}/events", "get")["responses"]["200"]["content"]["text/event-stream"]
    assert content["itemSchema"]["properties"]["data"]["contentSchema"] == {"$ref": "#/components/schemas/Event"}


def test_a_numbered_event_is_described_as_it_is_on_the_wire(described: dict[str, Any]) -> None:

    schemas = described["components"]["schemas"]
    line = encoding.encode(events.TextDelta(text="hi"), 7, "s1", 1.5)
    schema = {**schemas["Event"], "components": {"schemas": schemas}}
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(json.loads(line))
    assert not validator.is_valid({"type": "text_delta", "text": "hi"})
    assert not validator.is_valid({**json.loads(line), "text": 5})


def test_only_numbered_events_of_a_stream_must_have_their_envelope(described: dict[str, Any]) -> None:
    envelope = {"seq", "session", "ts"}
    schemas = described["components"]["schemas"]
    assert not envelope & set(schemas["TextDelta"]["required"])  # as an answer holds it
    assert envelope < set(schemas["TextDeltaEvent"]["required"])
    assert not envelope & set(schemas["LaggingEvent"]["properties"])
    assert envelope & set(schemas["GapEvent"]["properties"]) == {"session"}  # on a stream over many sessions
    assert "session" not in schemas["GapEvent"]["required"]
    assert schemas["SnapshotEvent"]["properties"]["session"] == {"$ref": "#/components/schemas/Health"}


def test_what_nothing_refers_to_is_left_out(described: dict[str, Any]) -> None:
    assert not {"StreamQuery", "StreamHeaders", "ToolStart"} & set(described["components"]["schemas"])


def test_the_problem_lists_every_code(described: dict[str, Any]) -> None:
    assert described["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == sorted(problems.STATUS)


def test_the_served_file_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged = tmp_path / "server"
    packaged.mkdir()
    monkeypatch.setattr(openapi, "__file__", str(packaged / "openapi.py"))
    for place, text in ((tmp_path, b"checkout"), (packaged, b"installed")):
        (place / "openapi.yaml").write_bytes(text)
        openapi.served_bytes.cache_clear()
        assert openapi.served_bytes() == text
    openapi.served_bytes.cache_clear()
