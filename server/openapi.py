"""Describes the API: `openapi.yaml` is generated from the endpoints that the router is built from.

Knows endpoints and models, not the routes themselves; `python -m server.openapi` writes the file. OpenAPI 3.2,
because only it can say what one event of a stream looks like (`itemSchema`). Promise: the same endpoints give the
same bytes, and every event, body, answer and problem code that the server knows is in them.
"""

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from server import problems
from server.event_schemas import STREAM_ITEM, event_models, event_schemas
from server.models_schema import ModelSchemas, Schema, used
from server.routes.table import Endpoint

FILE = "openapi.yaml"
ANY_BYTES = "*/*"
TICKET = "ticket"
TICKET_FIELD = "ticket"  # a stream whose query has it can be opened without the token

ALWAYS = ("forbidden_host", "forbidden_origin", "internal")
WITH_TOKEN = ("unauthorized",)
WITH_INPUT = ("bad_request",)
WITH_KEY = ("bad_request", "unprocessable", "draining")
WITH_BODY = ("bad_request", "unsupported_media_type", "body_too_large")

PARAMETERS: Mapping[str, str] = {
    "id": "The session: its id, a unique beginning of it, or `latest`.",
    "blob": "The SHA-256 of the bytes, in hexadecimal.",
    "rule_id": "A standing rule, as the list names it.",
    "approval_id": "What waits for approval, as the list names it.",
    "request_id": "The permission request, `perm-3` for instance.",
}
KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "Names this submission: the same key with the same body gets the first successful answer again for ten"
        " minutes, also while the first request is still going on; with another body it is refused."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}
HEADER_NAMES: Mapping[str, str] = {"last_event_id": "Last-Event-ID"}
"""Where a header's usual spelling is not its words with capitals."""
ANSWER_HEADERS: Mapping[int, str] = {401: "WWW-Authenticate", 405: "Allow", 503: "Retry-After"}
MEANING: Mapping[int, str] = {200: "Done", 201: "Made", 202: "Accepted", 204: "Done; no body"}

PROBLEM: Schema = {
    "description": "Why a request failed.",
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "A sentence for a person."},
        "code": {"type": "string", "enum": sorted(problems.STATUS), "description": "For programs; stable."},
        "details": {"type": "object", "description": "More for programs, by code."},
    },
    "additionalProperties": False,
}


def document(endpoints: Sequence[Endpoint], control_events: Sequence[type[BaseModel]] = ()) -> Schema:
    """Describe the endpoints. `control_events` are the id-less events that `agentcore.events` does not hold."""
    events = [(event, False) for event in event_models(control_events)]
    models = ModelSchemas([*_models(endpoints), *events])
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, models)
        paths.setdefault(_template(endpoint.path), {})[endpoint.method.lower()] = operation
    schemas = {**models.definitions, **event_schemas(models, control_events), "Problem": PROBLEM}
    return {
        "openapi": "3.2.0",
        "info": _info(),
        "servers": [{"url": "http://127.0.0.1:4765"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": used(schemas, paths),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                TICKET: {"type": "apiKey", "in": "query", "name": TICKET_FIELD},
            },
        },
    }


def render(endpoints: Sequence[Endpoint] | None = None, control_events: Sequence[type[BaseModel]] = ()) -> str:
    """Return the text of `openapi.yaml`; without endpoints, of those of this server."""
    import yaml

    if endpoints is None:
        from server.routes import all as routes

        endpoints = routes.ENDPOINTS
        control_events = routes.CONTROL_EVENTS
    text: str = yaml.dump(
        document(endpoints, control_events), Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110
    )
    return text


@cache
def served_bytes() -> bytes:
    """The file as it is answered: beside this module in an installed copy, at the root of a checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / FILE
    return (packaged if packaged.exists() else here.parent / FILE).read_bytes()


def _info() -> Schema:
    return {
        "title": "agentcore",
        "version": version("agentcore-server"),
        "summary": "A local server that runs coding agents.",
        "description": (
            "Requests must name the server as localhost, 127.0.0.1 or [::1], and carry the token from its start "
            "line.\nBodies are JSON; an unknown field is refused. Clients ignore fields and event types that they "
            "do not know."
        ),
        "license": {"name": "MIT", "identifier": "MIT"},
    }


def _models(endpoints: Sequence[Endpoint]) -> Iterator[tuple[type[BaseModel], bool]]:
    """All models, each with whether the server reads it (else it sends it)."""
    for endpoint in endpoints:
        for read in (endpoint.body, endpoint.query, endpoint.headers):
            if read is not None:
                yield read, True
        for sent in endpoint.answers.values():
            if sent is not None:
                yield sent, False


def _operation(endpoint: Endpoint, models: ModelSchemas) -> Schema:
    operation: Schema = {"operationId": endpoint.handler.__name__, "summary": endpoint.summary}
    if text := inspect.getdoc(endpoint.handler):
        operation["description"] = text
    if parameters := [*_path_parameters(endpoint), *_query_and_headers(endpoint, models)]:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {"application/json": {"schema": models.reference(endpoint.body, is_read=True)}}
        operation["requestBody"] = {"required": models.has_required(endpoint.body), "content": content}
    if endpoint.raw_body:
        operation["requestBody"] = {"required": True, "content": {kind: {} for kind in endpoint.raw_body}}
    operation["responses"] = {**_successes(endpoint, models), **_failures(endpoint)}
    if endpoint.public:
        operation["security"] = []
    elif _is_ticketed(endpoint):
        operation["security"] = [{"token": []}, {TICKET: []}]
    return operation


def _template(path: str) -> str:
    """The path without Starlette's converters: `{name:path}` is `{name}`."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _path_parameters(endpoint: Endpoint) -> Iterator[Schema]:
    for name in re.findall(r"\{(\w+)\}", _template(endpoint.path)):
        parameter: Schema = {"name": name, "in": "path", "required": True}
        if name in PARAMETERS:
            parameter["description"] = PARAMETERS[name]
        yield parameter | {"schema": {"type": "string", "minLength": 1}}


def _query_and_headers(endpoint: Endpoint, models: ModelSchemas) -> Iterator[Schema]:
    if endpoint.takes_key:
        yield KEY
    for model, where in ((endpoint.query, "query"), (endpoint.headers, "header")):
        if model is None:
            continue
        for name, (schema, is_required) in models.fields(model).items():
            if where == "query" and name == TICKET_FIELD and endpoint.stream:
                continue  # it is a way to show who one is, described as such
            shown = name if where == "query" else HEADER_NAMES.get(name, name.replace("_", "-").title())
            parameter: Schema = {"name": shown, "in": where}
            if is_required:
                parameter["required"] = True
            if description := schema.pop("description", None):
                parameter["description"] = description
            if schema.get("type") == "array":
                parameter["explode"] = False  # one value with commas: a parameter given twice is refused
            yield parameter | {"schema": schema}


def _is_ticketed(endpoint: Endpoint) -> bool:
    return endpoint.stream and endpoint.query is not None and TICKET_FIELD in endpoint.query.model_fields


def _successes(endpoint: Endpoint, models: ModelSchemas) -> dict[str, Schema]:
    return {
        str(status): {"description": MEANING.get(status, "Done")} | _content(endpoint, model, models)
        for status, model in sorted(endpoint.answers.items())
    }


def _content(endpoint: Endpoint, model: type[BaseModel] | None, models: ModelSchemas) -> Schema:
    if endpoint.stream:
        return {"content": {"text/event-stream": {"itemSchema": STREAM_ITEM}}}
    if endpoint.media_type == ANY_BYTES:
        return {"content": {ANY_BYTES: {}}}
    if model is not None:
        return {"content": {endpoint.media_type: {"schema": models.reference(model, is_read=False)}}}
    if endpoint.media_type != "application/json":
        return {"content": {endpoint.media_type: {"schema": {"type": "string"}}}}
    return {}


def _failures(endpoint: Endpoint) -> dict[str, Schema]:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in sorted(_codes(endpoint)):
        by_status[problems.STATUS[code]].append(code)
    return {str(status): _failure(status, codes) for status, codes in sorted(by_status.items())}


def _codes(endpoint: Endpoint) -> set[str]:
    codes = {*ALWAYS, *endpoint.problems}
    if not endpoint.public:
        codes.update(WITH_TOKEN)
    if endpoint.query is not None or endpoint.headers is not None:
        codes.update(WITH_INPUT)
    if endpoint.body is not None or endpoint.raw_body:
        codes.update(WITH_BODY)
    if endpoint.takes_key:
        codes.update(WITH_KEY)
    return codes


def _failure(status: int, codes: Sequence[str]) -> Schema:
    failure: Schema = {"description": ", ".join(f"`{code}`" for code in codes)}
    if status in ANSWER_HEADERS:
        failure["headers"] = {ANSWER_HEADERS[status]: {"schema": {"type": "string"}}}
    return failure | {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def _dumper() -> Any:
    """YAML for people: no anchors (what is used twice is written twice), and long texts line by line."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Plain.add_representer(str, text)
    return Plain


def main(arguments: list[str]) -> int:
    """Write `openapi.yaml` at the root of the checkout; with `--check`, only say whether it is in step."""
    file, text = Path(__file__).resolve().parent.parent / FILE, render()
    if arguments == ["--check"]:
        if file.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{FILE} is out of step with the code; run: python -m server.openapi\n")
        return 1
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
