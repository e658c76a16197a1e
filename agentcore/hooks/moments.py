"""The moments at which hooks are called: what each one's matcher is about, and what a hook can do there.

The table of the conventions as values; whatever differs between moments is a column of it.
"""

from dataclasses import dataclass
from typing import Literal

MatchedOn = Literal["tool", "value", "nothing"]
OnExit2 = Literal["blocks", "tells the model", "tells the user"]


@dataclass(frozen=True, slots=True)
class Moment:
    event: str
    """As it is called in settings, in what a hook reads and in what it prints."""
    matched_on: MatchedOn = "nothing"
    """What a matcher is compared with: a tool's name, a value of the moment (a source, a trigger), or it is ignored."""
    on_exit_2: OnExit2 = "tells the user"
    """What becomes of stderr when a hook ends with exit code 2."""
    can_block: bool = False
    """Whether `decision: "block"` means anything."""
    is_plain_heard: bool = False
    """Whether plain text on stdout reaches the model."""
    is_gate: bool = False
    """Whether something is let through here, so that `fail_closed` means something."""

    @property
    def is_judged(self) -> bool:
        """Whether somebody's no means anything here."""
        return self.is_gate or self.can_block or self.on_exit_2 != "tells the user"


_ALL = (
    Moment("SessionStart", "value", is_plain_heard=True),
    Moment("UserPromptSubmit", on_exit_2="blocks", can_block=True, is_plain_heard=True, is_gate=True),
    Moment("PreToolUse", "tool", on_exit_2="blocks", is_gate=True),
    Moment("PermissionRequest", "tool", is_gate=True),
    Moment("PostToolUse", "tool", on_exit_2="tells the model", can_block=True),
    Moment("PostToolUseFailure", "tool", on_exit_2="tells the model"),
    Moment("PostToolBatch", on_exit_2="blocks", can_block=True),
    Moment("Notification", "value"),
    Moment("SubagentStart", "value"),
    Moment("SubagentStop", "value", on_exit_2="blocks", can_block=True),
    Moment("Stop", on_exit_2="blocks", can_block=True),
    Moment("StopFailure", "value"),
    Moment("PreCompact", "value", on_exit_2="blocks", can_block=True),
    Moment("PostCompact", "value"),
    Moment("RunEnd"),
    Moment("SessionEnd", "value"),
)
MOMENTS = {moment.event: moment for moment in _ALL}
