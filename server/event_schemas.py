"""JSON Schemas of the events as they are on the wire, envelope included, and of one item of a stream.

Used by `openapi` alone. The log puts `seq`, `session` and `ts` on an event while it encodes it, so a numbered event
always has them.
Fields that a client does not know are allowed: a newer server may send some.
"""

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel

from agentcore.events import ControlEvent, Event, Gap, NumberedEvent
from server.models_schema import TEMPLATE, ModelSchemas, Schema

UNION = "Event"
ENVELOPE: Schema = {
    "seq": {"type": "integer", "minimum": 1, "description": "Number within the session, never repeated."},
    "session": {"type": "string"},
    "ts": {"type": "number", "description": "Unix time in seconds."},
}
OF_MANY: Schema = {"type": "string", "description": "Whose gap it is, on a stream over many sessions alone."}

STREAM_ITEM: Schema = {
    "description": (
        "One block of the stream. Comments (`: connected`, `: keepalive`) are no items, and neither is a block that is"
        " nothing but an `id`: it moves what goes into `Last-Event-ID`."
    ),
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {
            "type": "string",
            "description": (
                "The event's `seq`, for `Last-Event-ID`. Control events have none, and no event of a stream over many"
                " sessions."
            ),
        },
        "event": {"type": "string", "description": "The event's `type`."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": f"#/components/schemas/{UNION}"},
        },
    },
}


def event_models(further_control: Sequence[type[BaseModel]]) -> list[type[BaseModel]]:
    """All events that a stream can carry; `further_control` are control events that live elsewhere."""
    return [*get_args(NumberedEvent), *get_args(ControlEvent), *further_control]


def event_schemas(models: ModelSchemas, further_control: Sequence[type[BaseModel]]) -> dict[str, Schema]:
    """The components of all events as they are on the wire, and their union."""
    schemas: dict[str, Schema] = {}
    types: dict[str, str] = {}
    for event in event_models(further_control):
        value = models.definitions[models.name(event, is_read=False)]
        schema = _on_the_wire(event, value)
        name = f"{event.__name__}Event"  # the bare name is the value as answers hold it
        schemas[name] = schema
        types[schema["properties"]["type"]["const"]] = TEMPLATE.format(model=name)
    schemas[UNION] = {
        "description": "Everything that a stream can carry. Ignore types that you do not know.",
        "oneOf": [{"$ref": reference} for reference in types.values()],
        "discriminator": {"propertyName": "type", "mapping": types},
    }
    return schemas


def _on_the_wire(event: type[BaseModel], schema: Schema) -> Schema:
    """Make the envelope required; control events belong to one stream and have none."""
    own = {"type", *(ENVELOPE if issubclass(event, Event) else ())}
    envelope = ENVELOPE if event in get_args(NumberedEvent) else {}
    of_many = {"session": OF_MANY} if event is Gap else {}
    kind = {"type": "string", "const": schema["properties"]["type"]["const"]}
    fields = {name: field for name, field in schema["properties"].items() if name not in own}
    return {
        **{key: schema[key] for key in ("description",) if key in schema},
        "type": "object",
        "required": ["type", *envelope, *(name for name in schema.get("required", []) if name in fields)],
        "properties": {"type": kind, **envelope, **of_many, **fields},
    }
