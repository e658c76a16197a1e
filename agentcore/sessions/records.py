"""Journal lines that no client sees: the side facts from which a session is loaded again.

An event has `seq` as its second field; a record never has one.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter

from agentcore.encoding import escape_separators
from agentcore.messages import Document, Image, Text
from agentcore.ports import ToolDefinition
from agentcore.session import Settings
from agentcore.values import Value

FORMAT = 1
"""Major version of the journal; a reader refuses a newer one."""


class Meta(Value):
    """The first line of every journal."""

    type: Literal["meta"] = "meta"
    format: int = FORMAT
    session: str
    cwd: str
    created: float
    """Unix time in seconds."""
    settings: Settings


class Context(Value):
    """A fresh context: what the model is told before the first message."""

    type: Literal["context"] = "context"
    system: str
    tools: tuple[ToolDefinition, ...]


class Prompt(Value):
    """A prompt was accepted: from here on it is not lost."""

    type: Literal["prompt"] = "prompt"
    prompt_id: str
    run_id: str
    text: str
    attachments: Annotated[
        tuple[Annotated[Text | Image | Document, Field(discriminator="type")], ...],
        Field(exclude_if=lambda blocks: not blocks),
    ] = ()
    """What goes before the text."""
    output_schema: dict[str, JsonValue] | None = None
    """JSON Schema that the answer has to satisfy."""
    ts: float


class Load(Value):
    """The session was loaded; numbers of this load begin above `base`."""

    type: Literal["load"] = "load"
    base: int
    ts: float


class Reserve(Value):
    """Numbers up to and including `until` may be given out."""

    type: Literal["reserve"] = "reserve"
    until: int


class Grant(Value):
    """A permission rule that holds for the rest of the session."""

    type: Literal["grant"] = "grant"
    rule: str


class Repair(Value):
    """Something was mended while loading."""

    type: Literal["repair"] = "repair"
    what: str
    """A sentence for the operator."""


Record = Meta | Context | Prompt | Load | Reserve | Grant | Repair
RECORD_TYPES = frozenset({"meta", "context", "prompt", "load", "reserve", "grant", "repair"})
RECORDS: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])


def encode_record(record: Record) -> bytes:
    """One line of JSON without the newline; `type` comes first."""
    return escape_separators(record.model_dump_json(exclude_none=True).encode())
