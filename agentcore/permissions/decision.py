"""What the session's stance says about a call: allowed, denied, or a person is asked. Pure functions over values.

The order is the contract's; the first line that applies decides.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from agentcore.events import Mode
from agentcore.messages import ToolCall
from agentcore.permissions.commands import Match
from agentcore.permissions.facts import Facts
from agentcore.permissions.matching import Subject, is_allowed, strongest
from agentcore.permissions.names import WEB
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import Rule
from agentcore.ports.permission import UNHOOKED, HookSays
from agentcore.ports.tools import ToolSpec


class Outlook(Enum):
    ALLOW = auto()
    DENY = auto()
    ASK = auto()


@dataclass(frozen=True, slots=True)
class Stance:
    """The session's mode and rules."""

    mode: Mode = "default"
    rules: Rulebook = field(default_factory=Rulebook)
    sandbox_allows: bool = False
    """Shell commands run in a sandbox, and need no question there."""
    is_sandboxed: bool = False
    """Shell commands run in a sandbox: one that is to run outside of it is a person's to decide."""


@dataclass(frozen=True, slots=True)
class Opinion:
    outlook: Outlook
    reason: str
    is_firm: bool = False
    """No answer of a person, given earlier, overrules it."""
    is_grantable: bool = True
    """Whether an allow rule would settle the question for the next time."""
    is_put_off: bool = False
    """A hook wants the answer to come later."""


def judge_call(call: ToolCall, spec: ToolSpec, facts: Facts, stance: Stance, says: HookSays = UNHOOKED) -> Opinion:
    """Decide about a valid call without asking anybody."""
    subject = Subject(call, spec, facts)
    if (denied := _forbidden(subject, stance, says)) is not None:
        return Opinion(Outlook.DENY, denied, is_firm=True)
    if (must_ask := _must_ask(subject, stance, says)) is not None:
        if stance.mode == "plan" and not _only_looks(subject, stance):
            return Opinion(Outlook.DENY, f"{must_ask}, and {_PLAN}")
        return _ask(must_ask, stance.mode, is_grantable=False, is_put_off=says.verdict == "defer")
    if stance.mode == "yolo":
        return Opinion(Outlook.ALLOW, "mode yolo")
    if spec.only_reads(call.input) and call.name not in WEB:
        return Opinion(Outlook.ALLOW, "it only reads")
    if spec.gated_inside:
        return Opinion(Outlook.ALLOW, "each of its calls is decided by itself")
    if stance.mode == "plan" and (planned := _planned(subject, stance)) is not None:
        return planned
    if (allowed := _allowed(subject, stance, says)) is not None:
        return Opinion(Outlook.ALLOW, allowed)
    return _ask(f"{call.name} {_does(call)} and no rule allows it", stance.mode)


def _forbidden(subject: Subject, stance: Stance, says: HookSays) -> str | None:
    """Lines 1 to 3 of the order: why nobody can allow it."""
    if subject.facts.outside is not None:
        return subject.facts.outside
    met, rule = strongest(stance.rules.deny, subject)
    if met is Match.YES and rule is not None:
        return f"{_named(rule)} forbids this call"
    if says.verdict == "deny":
        return f"a hook forbids this call{_because(says)}"
    return None


def _must_ask(subject: Subject, stance: Stance, says: HookSays) -> str | None:
    """Why a person is asked whatever the mode and the allow rules: line 4, and what line 1 says of places."""
    spec, facts = subject.spec, subject.facts
    if spec.asks is not None:
        return f"{spec.name} {'wants each call confirmed' if spec.asks == 'tool' else 'is a question to a person'}"
    if facts.protected:
        return f"protected: {', '.join(facts.protected)}"
    line = facts.line
    if line is not None and stance.is_sandboxed and _leaves_sandbox(subject) and stance.mode != "plan":
        return "it would run outside of the sandbox"
    if line is not None and line.critical is not None:
        return f"critical: {line.critical}"
    if line is not None and line.unclear is not None:
        return line.unclear
    if line is not None and line.setting is not None and not _spells(subject, stance):
        return f"protected: {line.setting} may name a program that git runs"
    if line is not None and line.script.problem is not None:
        return f"it is not certain what this command would run: {line.script.problem}"
    for rules, does, may in (
        (stance.rules.deny, "forbids", "may forbid"),
        (stance.rules.ask, "asks about", "may ask about"),
    ):
        met, rule = strongest(rules, subject)
        if rule is not None:
            return f"{_named(rule)} {does if met is Match.YES else may} this call"
    if says.verdict in ("ask", "defer"):
        return f"a hook asks about this call{_because(says)}"
    return None


_PLAN = "plan mode changes nothing: finish the plan and call exit_plan_mode"


def _planned(subject: Subject, stance: Stance) -> Opinion | None:
    """Line 7: what plan mode says; None where the lines below decide, because nothing can be written."""
    call, line = subject.call, subject.facts.line
    if call.name in WEB:
        return Opinion(Outlook.ASK, f"{call.name} reaches the network, in plan mode too", is_grantable=False)
    if line is not None and line.all_shows:
        return Opinion(Outlook.ALLOW, "it only shows something")
    return None if _is_confined(subject, stance) else Opinion(Outlook.DENY, _PLAN)


def _only_looks(subject: Subject, stance: Stance) -> bool:
    """Whether a call cannot write in plan mode, so that a person may be asked about it."""
    line = subject.facts.line
    if subject.facts.protected or (line is not None and line.critical is not None):
        return False
    if line is not None:
        return line.all_shows or _is_confined(subject, stance)
    return subject.spec.only_reads(subject.call.input) or subject.call.name in WEB


def _is_confined(subject: Subject, stance: Stance) -> bool:
    """Whether a command runs in the sandbox, which has the project read-only in plan mode."""
    return subject.facts.line is not None and stance.is_sandboxed and not _leaves_sandbox(subject)


def _allowed(subject: Subject, stance: Stance, says: HookSays) -> str | None:
    """Lines 8 to 11: why it runs without a question."""
    line, accepts_edits = subject.facts.line, stance.mode == "accept-edits"
    if is_allowed(stance.rules.allow, subject, edits_are_allowed=accepts_edits):
        return "an allow rule of the user"
    if says.verdict == "allow":
        return f"a hook allows it{_because(says)}"
    if line is not None and stance.sandbox_allows and not _leaves_sandbox(subject):
        return "it runs in the sandbox"
    if line is not None and line.only_shows:
        return "it only shows something"
    if accepts_edits and subject.spec.edits:
        return "mode accept-edits"
    return None


def _spells(subject: Subject, stance: Stance) -> bool:
    """Whether a rule of the user's with a pattern means a command: one for all commands says nothing of settings."""
    spelled = [rule for rule in stance.rules.allow if rule.spec is not None]
    return is_allowed(spelled, subject, edits_are_allowed=False)


def _leaves_sandbox(subject: Subject) -> bool:
    return subject.field("sandbox") not in (None, True)


def _does(call: ToolCall) -> str:
    return "reaches the network" if call.name in WEB else "changes something"


def _named(rule: Rule) -> str:
    what = "the broken rule" if rule.broken is not None else "the rule"
    return f"{what} {str(rule)[:120]} ({rule.origin.name})"


def _because(says: HookSays) -> str:
    return f": {says.reason}" if says.reason else ""


def _ask(reason: str, mode: Mode, *, is_grantable: bool = True, is_put_off: bool = False) -> Opinion:
    if mode == "deny":
        return Opinion(Outlook.DENY, f"{reason}, and mode deny never asks")
    return Opinion(Outlook.ASK, reason, is_grantable=is_grantable, is_put_off=is_put_off)
