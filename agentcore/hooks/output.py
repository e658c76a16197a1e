"""What a hook said: its exit code and what it printed, read by the rules of the conventions. Pure.

JSON is read where stdout begins with `{`; `hookSpecificOutput` counts only under the name of its event. Exit code 2
blocks, whatever the JSON says; with any other one but 0 valid JSON decides, and without it the hook has failed.
Whatever cannot be understood is a problem, and decides nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from pydantic import JsonValue
from pydantic_core import from_json

from agentcore.hooks.moments import Moment
from agentcore.hooks.updates import NO_UPDATES, Updates, read_updates
from agentcore.hooks.words import MAX_CHARS

Verdict: TypeAlias = Literal["deny", "defer", "ask", "allow"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The strictest first."""

UNSAID = "no reason was given"
_OLD: Mapping[str, Verdict] = {"approve": "allow", "block": "deny"}
LINE_CHARS = 300
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_NOT_FOLLOWED = {"SessionStart": ("initialUserMessage", "reloadSkills", "watchPaths")}
"""What other agents do something with, by event."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What a hook answers in a person's place."""

    is_allowed: bool
    input: JsonValue = None
    """In the place of the call's; None: as it is."""
    message: str = ""
    is_halt: bool = False
    updates: Updates = NO_UPDATES
    """What changes for good with its yes."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one hook said."""

    verdict: Verdict | None = None
    reason: str = ""
    """Of the verdict."""
    blocked: str | None = None
    """Why it blocks, or what it has to object to what was done; None: it does not."""
    is_halt: bool = False
    halt_reason: str = ""
    message: str = ""
    """For the user."""
    context: str = ""
    """For the model."""
    title: str | None = None
    input: JsonValue = None
    tool_name: str | None = None
    output: JsonValue = None
    permission: Permission | None = None
    problems: tuple[str, ...] = ()
    """What could not be understood, or went wrong; each part of a sentence that begins with the hook's name."""
    has_failed: bool = False
    """Nothing it said can be relied on."""


SILENT = Said()


def failed(problem: str) -> Said:
    return Said(problems=(problem,), has_failed=True)


def read_printed(moment: Moment, exit_code: int, stdout: str, stderr: str) -> Said:
    """What a command said."""
    found = _json(stdout) if stdout.lstrip().startswith("{") else None
    if exit_code == 2:
        return _blocked(moment, stderr.strip(), _said(moment, found))
    if exit_code != 0 and not isinstance(found, dict):
        return failed(f"ended with exit code {exit_code}{_told(stderr)}")
    if found is None and moment.is_plain_heard:
        return Said(context=stdout.strip())
    return _said(moment, found)


def read_answered(moment: Moment, status: int, body: str) -> Said:
    """What an address said. Only JSON means anything: others answer `ok` to everything."""
    if not 200 <= status < 300:
        return failed(f"was answered with HTTP {status}")
    return _said(moment, _json(body) if body.lstrip().startswith("{") else None)


def read_judged(moment: Moment, text: str, *, goes_on: bool) -> Said:
    """What a model said to a question: `{"ok": true}`, or `{"ok": false, "reason": "…"}`. `goes_on`: its no about a
    call that has run is told to the model, and does not end the run."""
    found = _OBJECT.search(text)
    read = _json(found[0]) if found is not None else ""
    ok = read.get("ok") if isinstance(read, dict) else None
    if not isinstance(read, dict) or not isinstance(ok, bool):
        return failed('was answered otherwise than with `{"ok": …, "reason": …}`')
    if ok:
        return SILENT
    given = read.get("reason")
    reason = given.strip() if isinstance(given, str) and given.strip() else UNSAID
    match moment.event:
        case "PreToolUse":
            return Said(verdict="deny", reason=reason)
        case "PermissionRequest":
            return Said(permission=Permission(is_allowed=False, message=reason[:MAX_CHARS]))
        case "PostToolUse" | "PostToolUseFailure" if not goes_on:
            return Said(is_halt=True, halt_reason=reason)
        case _:
            return Said(blocked=reason)


def _blocked(moment: Moment, stderr: str, said: Said) -> Said:
    """Exit code 2: of the JSON only what is not about the decision counts."""
    kept = Said(is_halt=said.is_halt, halt_reason=said.halt_reason, message=said.message)
    if moment.on_exit_2 == "tells the user":
        return replace(kept, problems=(f"ended with exit code 2, which blocks nothing{_told(stderr)}",))
    why = stderr or said.blocked or said.reason or UNSAID
    if moment.event == "PreToolUse":
        return replace(kept, verdict="deny", reason=why)
    return replace(kept, blocked=why)


def _told(stderr: str) -> str:
    line = next((line.strip() for line in stderr.splitlines() if line.strip()), "")
    return f": {line[:LINE_CHARS]}" if line else ""


# --- JSON ---


def _json(text: str) -> dict[str, Any] | str:
    """The object that a text is, or what is wrong with it."""
    try:
        found = from_json(text, allow_inf_nan=False)
    except ValueError:
        return "printed what begins like JSON and is none"
    return found if isinstance(found, dict) else "printed JSON that is no object"


def _said(moment: Moment, found: dict[str, Any] | str | None) -> Said:
    if found is None:
        return SILENT
    return failed(found) if isinstance(found, str) else _Fields(moment, found).read()


class _Fields:
    """The fields of one output; each that has another type than it should is a problem and counts as absent."""

    def __init__(self, moment: Moment, top: dict[str, Any]) -> None:
        self._moment = moment
        self._problems: list[str] = []
        self._remarks: list[str] = []
        self._top = top
        self._own = self._specific()

    def _specific(self) -> dict[str, Any]:
        own = self._top.get("hookSpecificOutput")
        if own is None:
            return {}
        if not isinstance(own, dict):
            self._problems.append("printed a `hookSpecificOutput` that is no object")
            return {}
        if own.get("hookEventName") != self._moment.event:
            self._problems.append(
                f"printed a `hookSpecificOutput` whose `hookEventName` is not {self._moment.event}: it is ignored"
            )
            return {}
        return own

    def read(self) -> Said:
        for name in _NOT_FOLLOWED.get(self._moment.event, ()):
            if self._own.get(name):
                self._remarks.append(f"printed `{name}`, which has no effect here")
        verdict, reason = self._verdict()
        return Said(
            verdict=verdict,
            reason=reason,
            blocked=self._block(),
            is_halt=self._flag(self._top, "continue", True) is False,
            halt_reason=self._text(self._top, "stopReason"),
            message=self._text(self._top, "systemMessage"),
            context=self._text(self._own, "additionalContext"),
            title=self._text(self._own, "sessionTitle") or None,
            input=self._own.get("updatedInput"),
            tool_name=self._text(self._own, "updatedTool") or None,
            output=self._own.get("updatedToolOutput"),
            permission=self._permission(),
            problems=(*self._problems, *self._remarks),
            has_failed=bool(self._problems),
        )

    def _verdict(self) -> tuple[Verdict | None, str]:
        if self._moment.event != "PreToolUse":
            return None, ""
        reason = self._text(self._own, "permissionDecisionReason")
        if (given := self._own.get("permissionDecision")) is not None:
            verdict = next((verdict for verdict in VERDICTS if verdict == given), None)
            if verdict is None:
                self._problems.append(f"printed a `permissionDecision` that is none of {', '.join(VERDICTS)}")
            return verdict, reason
        if (old := self._top.get("decision")) is not None:
            if not isinstance(old, str) or old not in _OLD:
                self._problems.append("printed a `decision` that is neither `approve` nor `block`")
                return None, ""
            return _OLD[old], self._text(self._top, "reason")
        return None, ""

    def _block(self) -> str | None:
        if not self._moment.can_block:
            return None
        decision = self._top.get("decision")
        if decision not in (None, "block", "approve"):
            self._problems.append("printed a `decision` that is not `block`")
        return (self._text(self._top, "reason") or UNSAID) if decision == "block" else None

    def _permission(self) -> Permission | None:
        decision = self._own.get("decision")
        if self._moment.event != "PermissionRequest" or decision is None:
            return None
        behavior = decision.get("behavior") if isinstance(decision, dict) else None
        if behavior not in ("allow", "deny"):
            self._problems.append("printed a `decision` whose `behavior` is neither `allow` nor `deny`")
            return None
        updates = read_updates(decision.get("updatedPermissions"), self._remarks.append)
        return Permission(
            is_allowed=behavior == "allow",
            input=decision.get("updatedInput"),
            message=self._text(decision, "message")[:MAX_CHARS],
            is_halt=behavior == "deny" and self._flag(decision, "interrupt", False),
            updates=updates if behavior == "allow" else NO_UPDATES,
        )

    def _text(self, where: Mapping[str, Any], name: str) -> str:
        value = where.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self._problems.append(f"printed a `{name}` that is no text")
        return ""

    def _flag(self, where: Mapping[str, Any], name: str, default: bool) -> bool:
        value = where.get(name, default)
        if isinstance(value, bool):
            return value
        self._problems.append(f"printed a `{name}` that is neither true nor false")
        return default
