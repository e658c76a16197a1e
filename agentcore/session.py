"""Values about a session as clients see it: how it works, how it is listed, what was said in it."""

from collections.abc import Mapping
from typing import Any, Literal

from agentcore.events import Mode, TaskKind, TaskState, Unattended
from agentcore.messages import Block
from agentcore.usage import Budget
from agentcore.values import Value


class Settings(Value):
    """What a session was told about how to work. None: the default of the moment."""

    model: str | None = None
    """`provider/model`."""
    effort: str | None = None
    mode: Mode = "default"
    unattended: Unattended = "wait"
    title: str | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    system_append: str | None = None
    trace: bool | None = None
    """Keep what is sent to models. None: as the server was started."""
    expires_after_s: float | None = None
    budget: Budget | None = None
    budget_step: Budget | None = None
    """What its limits were before answers raised them: by so much each answer does. None: `budget` itself."""

    def with_given(self, given: Mapping[str, Any]) -> "Settings":
        """The settings with these in their place; of a budget only the limits that were given."""
        budget = given.get("budget")
        fields = dict(given) if budget is None else {**given, "budget": budget.over(self.budget), "budget_step": None}
        return self.model_copy(update=fields)


SUBMISSION_KEPT_S = 600.0  # the promise of the API: ten minutes after the answer


class Submission(Value):
    """A request under an `Idempotency-Key`: the same key with the same body asks for the same thing again."""

    key: str
    body_sha256: str
    """Of the body's bytes, in hexadecimal."""


class DeferredCall(Value):
    """A tool call whose result comes later: `POST …/deferred/{token}` is it."""

    token: str
    call_id: str
    tool_name: str
    expires_at: float | None = None
    """Unix time in seconds; without a result by then the call fails."""


class BackgroundTask(Value):
    """Work that goes on beside the conversation, or has ended. Times are Unix seconds."""

    task_id: str
    kind: TaskKind
    label: str
    state: TaskState
    started: float
    ended: float | None = None
    result: str | None = None
    """What it came to, as the model is told; null while it is alive."""


class Summary(Value):
    """One line of the session list. Times are Unix seconds."""

    id: str
    title: str | None = None
    cwd: str
    created: float
    modified: float
    fork_of: str | None = None
    """The session whose history it began with."""


class StandingRule(Value):
    """A permission rule that holds for more than one call, until it is taken back."""

    id: str
    """The same as long as the rule stands where it does."""
    effect: Literal["allow", "ask", "deny"]
    rule: str
    scope: Literal["session", "project", "user"]
    source: str
    """The settings file that it stands in, without its folder; `session` for a grant."""
    session: str | None = None
    """Whose grant it is; it ends with that session."""
    expires_at: float | None = None
    """Unix time in seconds: from then on it is in force no more."""


class HistoryMessage(Value):
    """One message of the display history, whatever the model still remembers of it."""

    index: int
    """Place in the history, from 0."""
    id: str
    seq: int
    """Number of the event that completed it."""
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    display_text: str | None = None
    """What the person typed, where it differs from the content."""
    source: str | None = None
    """Where a user's message came from."""
    prompt_id: str | None = None
