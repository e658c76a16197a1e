"""What the session's stance says about a call: allowed, denied, or a person is asked. Pure functions over values.

The order is the contract's; the first line that applies decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from agentcore.events import Mode
from agentcore.messages import ToolCall
from agentcore.permissions.rules import Rule
from agentcore.ports import ToolSpec


class Outlook(Enum):
    ALLOW = auto()
    DENY = auto()
    ASK = auto()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the paths of a call, resolved through symlinks."""

    outside: str | None = None
    """Why a path is closed to tools; None when all are inside."""
    protected: tuple[str, ...] = ()
    """Paths whose change always needs a person."""


@dataclass(frozen=True, slots=True)
class Stance:
    """The session's mode and rules."""

    mode: Mode = "default"
    allow: Sequence[Rule] = ()
    deny: Sequence[Rule] = ()


@dataclass(frozen=True, slots=True)
class Opinion:
    outlook: Outlook
    reason: str
    is_firm: bool = False
    """No answer of a person, given earlier, overrules it."""
    is_grantable: bool = True
    """Whether an allow rule would settle the question for the next time."""


def judge_call(call: ToolCall, spec: ToolSpec, facts: Facts, stance: Stance) -> Opinion:
    """Decide about a valid call without asking anybody."""
    if facts.outside is not None:
        return Opinion(Outlook.DENY, facts.outside, is_firm=True)
    if any(rule.matches(call) for rule in stance.deny):
        return Opinion(Outlook.DENY, "a deny rule of the user forbids this call", is_firm=True)
    must_ask = _must_ask(spec, facts)
    if must_ask is not None:
        return _ask(must_ask, stance.mode, is_grantable=False)
    if stance.mode == "yolo":
        return Opinion(Outlook.ALLOW, "mode yolo")
    if spec.read_only:
        return Opinion(Outlook.ALLOW, "it only reads")
    if stance.mode == "plan":
        return Opinion(Outlook.DENY, "plan mode changes nothing: finish the plan and call exit_plan_mode")
    if any(rule.matches(call) for rule in stance.allow):
        return Opinion(Outlook.ALLOW, "an allow rule of the user")
    if stance.mode == "accept-edits" and spec.edits:
        return Opinion(Outlook.ALLOW, "mode accept-edits")
    return _ask(f"{call.name} changes something and no rule allows it", stance.mode)


def _must_ask(spec: ToolSpec, facts: Facts) -> str | None:
    if spec.asks is not None:
        return f"{spec.name} is a question to a person"
    if facts.protected:
        return f"protected: {', '.join(facts.protected)}"
    return None


def _ask(reason: str, mode: Mode, *, is_grantable: bool = True) -> Opinion:
    if mode == "deny":
        return Opinion(Outlook.DENY, f"{reason}, and mode deny never asks")
    return Opinion(Outlook.ASK, reason, is_grantable=is_grantable)
