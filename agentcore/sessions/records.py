"""Journal lines that no client sees: the side facts from which a session is loaded again.

An event has `seq` as its second field; a record never has one.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from agentcore.encoding import escape_separators
from agentcore.events import UserMessage
from agentcore.ids import new_message_id
from agentcore.messages import Document, Image, Message, Text
from agentcore.ports.models import ToolDefinition
from agentcore.session import DeferredCall, Settings, Submission
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
    fork_of: str | None = None
    """The session that this one begins with a copy of."""
    fork_at: int | None = None
    """Number of the last event of that session which was copied or passed over."""


Disposition = Literal["started", "queued", "steering", "interrupting"]
"""What became of a prompt when it was accepted: its run began, it waits for one, it waits for the run that is going on
to take it, or that run was cancelled for it and it is the next one."""


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
    submission: Submission | None = None
    """The key that it came under, if any."""
    after_seq: int | None = None
    """The last number before it, where it came under a key: for the answer to the same submission."""
    disposition: Annotated[Disposition, Field(exclude_if=lambda how: how == "started")] = "started"
    is_wake: Annotated[bool, Field(exclude_if=lambda is_wake: not is_wake)] = False
    """Nobody sent it: the run began by itself, to tell the model what came of background tasks."""
    is_unchecked: Annotated[bool, Field(exclude_if=lambda is_so: not is_so)] = False
    """Hooks or the guard have to let it through first: no title is made of it before."""
    ts: float

    def message(self, source: Literal["prompt", "steer"]) -> UserMessage:
        """What the model is told."""
        return UserMessage(
            id=new_message_id(),
            prompt_id=self.prompt_id,
            # before the text: that is how models read pictures best; an empty text is refused by vendors
            content=(*self.attachments, *((Text(text=self.text),) if self.text else ())),
            display_text=self.text if self.attachments else None,
            source=source,
        )


class Begin(Value):
    """The run of a queued prompt begins, or a suspended one goes on under a new name."""

    type: Literal["begin"] = "begin"
    prompt_id: str
    run_id: str
    ts: float


class Deferral(Value):
    """A call that has begun gets its result from outside; it is never run again."""

    type: Literal["deferred"] = "deferred"
    call: DeferredCall
    ts: float


class TaskProcess(Value):
    """A background task began a process that leads a group of its own."""

    type: Literal["task_process"] = "task_process"
    task_id: str
    pid: int
    """Of the process and of its group."""
    start: int
    """When it began, in ticks since boot; 0 where that cannot be told."""


class Load(Value):
    """The session was loaded; numbers of this load begin above `base`."""

    type: Literal["load"] = "load"
    base: int
    ts: float


class Reserve(Value):
    """Numbers up to and including `until` may be given out."""

    type: Literal["reserve"] = "reserve"
    until: int


class Lease(Value):
    """A process took the session over: the first line of its file."""

    type: Literal["lease"] = "lease"
    generation: int
    """Grows with each takeover, from 1."""
    owner: str
    ts: float


class Grant(Value):
    """A permission rule that holds for the rest of the session, or does so no more."""

    type: Literal["grant"] = "grant"
    rule: str
    is_revoked: bool = False
    expires_at: float | None = None
    """Unix time in seconds; None: it holds as long as the session."""


class Written(Value):
    """The rule of an answer stands in the user's settings, or it could not be written there and people were told so."""

    type: Literal["written"] = "written"
    request_id: str


class Note(Value):
    """Something that the model learns with the next prompt."""

    type: Literal["note"] = "note"
    text: str
    ts: float


class BudgetTold(Value):
    """A person was told about a limit of the budget; at this height it is not told again."""

    type: Literal["budget_told"] = "budget_told"
    limit: str
    """A limit, or `unpriced`."""
    amount: float


class Repair(Value):
    """Something was mended: a torn line set aside, or the transcript."""

    type: Literal["repair"] = "repair"
    what: str
    """A sentence for the operator."""
    messages: tuple[Message, ...] | None = None
    """The whole transcript from here on, where it was mended."""


Record = (
    Meta
    | Context
    | Prompt
    | Begin
    | Deferral
    | TaskProcess
    | Load
    | Lease
    | Reserve
    | Grant
    | Written
    | Note
    | BudgetTold
    | Repair
)
RECORD_TYPES = frozenset(
    {
        "meta",
        "context",
        "prompt",
        "begin",
        "deferred",
        "task_process",
        "load",
        "lease",
        "reserve",
        "grant",
        "note",
        "budget_told",
        "repair",
        "written",
    }
)
RECORDS: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)


def encode_record(record: Record) -> bytes:
    """One line of JSON without the newline; `type` comes first."""
    return escape_separators(record.model_dump_json(exclude_none=True).encode())
