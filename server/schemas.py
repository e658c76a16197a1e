"""What clients send: bodies, queries and headers. Times are Unix seconds, durations carry their unit."""

import re
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)

from agentcore.events import (
    Mode,
    Scope,
    Unattended,
)
from agentcore.messages import BlobId
from agentcore.usage import Budget
from agentcore.values import Value
from server.places import CURSOR, MAX_PLACES
from server.view import DURABLE, Detail

SessionName = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Title = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
MaxTurns = Annotated[int, Field(ge=1, le=10_000)]
MaxTokens = Annotated[int, Field(ge=1, le=1_000_000)]
Temperature = Annotated[float, Field(ge=0, le=2)]
ExpiresAfter = Annotated[float, Field(gt=0, le=31_536_000)]
PromptId = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Sequence = Annotated[int, Field(ge=0, le=2**53 - 1)]  # the largest whole number that every JSON reader keeps exact


_WORD = re.compile(r"[A-Za-z_-]{1,40}")
"""What may be repeated to whoever sent it."""


def _listed(value: object) -> object:
    return tuple(value.split(",")) if isinstance(value, str) else value


def _check_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    for number, kind in enumerate(kinds, 1):
        if kind not in DURABLE:
            which = f"'{kind}'" if _WORD.fullmatch(kind) else f"number {number}"
            raise ValueError(f"is no list of events ({which} is none); known are: {', '.join(DURABLE)}")
    return kinds


_KINDS = {"type": "array", "items": {"type": "string", "enum": list(DURABLE)}, "minItems": 1}
Kinds = Annotated[
    tuple[str, ...], BeforeValidator(_listed), AfterValidator(_check_kinds), WithJsonSchema(_KINDS, mode="validation")
]
SessionNames = Annotated[tuple[SessionName, ...], BeforeValidator(_listed), Field(min_length=1, max_length=MAX_PLACES)]
ManyCursor = Annotated[
    str, StringConstraints(pattern=CURSOR, max_length=60_000)
]  # what fits into the head of a request
_NUMBER = r"^[0-9]{1,16}$"
FORMS = {
    _NUMBER: "is no number of an event: send the last `id` of the stream, or leave it out",
    CURSOR: "is no cursor: send the last `id` of this stream as it came, or leave it out",
}
"""What clients are told in the place of a pattern."""
WhenBusy = Literal["reject", "queue", "steer", "interrupt"]
WaitsFor = Literal["model", "tool", "permission", "question", "retry", "mcp", "queue"]


class Empty(Value):
    """No fields."""


class SessionSettings(Value):
    """How a session works. A field that is left out keeps its value, or takes the server's default."""

    model: ModelName | None = None
    """`provider/model`, or a short name (`[aliases]` in the user's settings)."""
    effort: Effort | None = None
    mode: Mode | None = None
    unattended: Unattended | None = None
    """What happens to a permission request that nobody answers: it waits, it is denied at once, or it is deferred, so
    that the run ends `suspended` and goes on with the answer."""
    expires_after_s: ExpiresAfter | None = None
    """A permission request, or a call that a tool deferred, expires after so many seconds: the model is told so, and
    the run goes on, an interrupted or suspended one as well."""
    max_turns: MaxTurns | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    system_append: Annotated[str, StringConstraints(max_length=100_000)] | None = None
    """Added to the system prompt of the next fresh context."""
    trace: bool | None = None
    """Keep what is sent to models for 14 days (`GET …/trace`); default: whether the server runs with --debug."""
    title: Title | None = None
    budget: Budget | None = None
    """What the session may use in all. A limit that is left out keeps its value, null lifts it. One that is reached
    asks (a request of the kind `budget`), and raising it here answers that."""


class CreateSession(SessionSettings):
    cwd: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    """The working folder, below one of the server's roots; default: the first root."""
    resume: SessionName | None = None
    """Load this session: its id, a unique prefix of it, or `latest`."""
    continue_: Annotated[bool, Field(alias="continue")] = False
    """Load the session of this `cwd` that changed last."""
    takeover: bool = False
    """Load it also when another server holds it: that one ends its run `taken_over` and has no further effect."""


def _describe_patch(schema: dict[str, Any]) -> None:
    """Say in the schema what `PatchSession` says in words."""
    schema["minProperties"] = 1
    for field in schema["properties"].values():
        del field["default"]
        [value] = [branch for branch in field.pop("anyOf") if branch != {"type": "null"}]
        field.update(value)


class PatchSession(SessionSettings):
    """At least one field; none of them null: a setting can be replaced, not taken back to the server's default."""

    model_config = ConfigDict(json_schema_extra=_describe_patch)

    @model_validator(mode="after")
    def _has_no_null(self) -> Self:
        # `session_updated` leaves out what is null, so no reader of the journal or the stream could be told
        if nulls := sorted(name for name in self.model_fields_set if getattr(self, name) is None):
            raise ValueError(f"{', '.join(nulls)} cannot be null: leave it out to keep it, or send another value")
        return self


class ForkBody(SessionSettings):
    """Settings that are left out are those that the session has now."""

    at: Annotated[str, StringConstraints(min_length=1, max_length=200)] | Annotated[int, Field(ge=0)] | None = None
    """A message, by its id or its index in the history. One that begins a run: the fork is just before it. The last
    one of a finished run: just behind it. Default: the end."""


class AttachedBlob(Value):
    """Something that was uploaded to this session, or shown in it."""

    blob: BlobId


class AttachedPath(Value):
    """A file on the server's machine, read when the prompt is sent; what the tool `read` may not read is refused."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    """Absolute, or relative to the session's `cwd`."""


class AttachedData(Value):
    """A small file in the prompt itself; the whole body stays within 4 MiB, larger ones are uploaded first."""

    media_type: Annotated[str, StringConstraints(pattern=r"^(image|application|text)/[A-Za-z0-9.+-]{1,100}$")]
    data: Annotated[str, StringConstraints(min_length=1, max_length=4_194_304)]
    """Base64."""


def _shape(attachment: object) -> str | None:
    """Which kind of attachment a value is meant to be, by the one field that only this kind has."""
    has = attachment.__contains__ if isinstance(attachment, dict) else partial(hasattr, attachment)
    return next((name for name in ("blob", "path", "data") if has(name)), None)


PromptAttachment = Annotated[
    Annotated[AttachedBlob, Tag("blob")] | Annotated[AttachedPath, Tag("path")] | Annotated[AttachedData, Tag("data")],
    Discriminator(
        _shape,
        custom_error_type="attachment",
        custom_error_message="must be an object with `blob`, with `path`, or with `media_type` and `data`",
    ),
]


class PromptBody(Value):
    """Text, attachments, or both."""

    text: Annotated[str, StringConstraints(max_length=4_000_000)] = ""
    attachments: Annotated[tuple[PromptAttachment, ...], Field(max_length=20)] = ()
    """Pictures (PNG, JPEG, GIF, WebP), PDF and text files, for the model to see before the text."""
    wait: bool = False
    """Answer when the prompt is done, with its text."""
    when_busy: WhenBusy = "reject"
    """What becomes of the prompt while a run is going on. `reject`: 409. `queue`: it waits for its own run. `steer`:
    the run takes it at its next border, and calls that have not started are skipped. `interrupt`: the run is cancelled
    and this one begins."""
    output_schema: dict[str, JsonValue] | None = None
    """JSON Schema of an object; the answer then carries `structured`, which satisfies it."""


class UndoBody(Value):
    """An undo is of the last run that left a file other than it was: runs that changed nothing, or put everything back
    themselves, are passed over."""

    dry_run: bool = False
    """Only tell what would be restored, deleted and skipped."""


class AnswerBody(Value):
    allow: bool
    always: bool = False
    """Also allow what the suggested rule covers from now on; the same as scope `project` when no scope is given."""
    scope: Scope | None = None
    expires_in_s: ExpiresAfter | None = None
    """With `always` or a scope wider than once: for how long the rule is in force; without, until it is taken back."""
    reason: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    """For the model, with a denial."""
    mode: Literal["default", "accept-edits"] | None = None
    """How to go on after the approval of a plan; default: `default`."""
    updated_input: dict[str, JsonValue] | None = None
    """Run this in place of the call's own input."""
    digest: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The request's digest: proves that the request that is answered is the one that was shown."""
    answer: JsonValue = None
    """The answer to a question, with `allow: true`. One question: one of `options`, a list of them where several may
    be chosen, true or false for yes or no, a text where `input.input` asks. Several: a list in their order, or an
    object by question or header."""


class ApprovalBody(Value):
    allow: bool
    """False: it does not run and no longer waits."""


class ReorderBody(Value):
    order: Annotated[tuple[PromptId, ...], Field(min_length=1, max_length=100)]
    """These run first, in this order; prompts that are not named follow as they were."""


class EditBody(Value):
    text: Annotated[str, StringConstraints(min_length=1, max_length=4_000_000)]


class DeferredBody(Value):
    """The result of a deferred call."""

    output: Annotated[str, StringConstraints(max_length=4_000_000)]
    is_error: bool = False


class TicketBody(Value):
    session: SessionName | None = None
    """Good for this session's stream alone."""


class ListQuery(Value):
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: Annotated[str, StringConstraints(max_length=200)] | None = None


class MessagesQuery(Value):
    after_seq: Sequence = 0
    limit: Annotated[int, Field(ge=1, le=10_000)] | None = None


class ExportQuery(Value):
    format: Literal["jsonl", "markdown", "json"] = "jsonl"
    """`jsonl`: every event; `json`: the session and its messages; `markdown`: a transcript to read."""


class TraceQuery(Value):
    format: Literal["html", "jsonl"] = "html"
    """`jsonl`: each request to a model, a line of JSON: `at`, `after_seq`, `agent`, `address`, `headers`, `body`."""


class ShownQuery(Value):
    """What a stream shows."""

    kinds: Kinds | None = None
    """These events alone, by their `type`; default: all."""
    detail: Detail = "full"
    """`final`: without what is for display alone (deltas, `waiting`); a replay then has all that there was, from
    however long ago."""


class EventsQuery(ShownQuery):
    after: Annotated[str, StringConstraints(pattern=_NUMBER)] | None = None
    """As `Last-Event-ID`, which wins over it."""
    ticket: Annotated[str, StringConstraints(max_length=200)] | None = None


class EventsHeaders(Value):
    last_event_id: Annotated[str, StringConstraints(pattern=_NUMBER)] | None = None
    """The last number that was seen; everything after it is sent again."""


class AllEventsQuery(ShownQuery):
    sessions: SessionNames | None = None
    """These alone: ids, unique beginnings of them, or `latest`; default: all that are loaded, now or later."""
    after: ManyCursor | None = None
    """As `Last-Event-ID`, which wins over it."""


class AllEventsHeaders(Value):
    last_event_id: ManyCursor | None = None
    """The last cursor that was seen; everything after it is sent again. Empty: everything since each session was
    loaded."""
