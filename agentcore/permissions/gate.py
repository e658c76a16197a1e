"""The gate of one session: judges each call, asks a person where the stance says so, remembers what was granted.

The judging is in `decision`; here are the grants and the conversation with the asker.
"""

import hashlib
import json
from collections.abc import Callable, Mapping

from anyio import to_thread
from pydantic import BaseModel, JsonValue, ValidationError

from agentcore.caps import bounded_input
from agentcore.errors import Unprocessable
from agentcore.events import Mode
from agentcore.messages import ToolCall
from agentcore.permissions.decision import Facts, Opinion, Outlook, Stance, judge_call
from agentcore.permissions.protected import is_protected_as_given, is_protected_place
from agentcore.permissions.rules import Rule, narrowest_rule
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports import Allow, Answer, Ask, Asker, Decision, Deny, Later, Tool, ToolSpec

_NOT_AGAIN = "Do not try the same call again; find another way or ask the user what to do."


class SessionGate:
    """Satisfies the Gate port. `on_grant` is told a rule once the call it was granted with has its result."""

    def __init__(
        self,
        workspace: Workspace,
        mode: Callable[[], Mode],
        asker: Asker | None,
        on_grant: Callable[[Rule], None],
        allow: list[Rule],
        deny: list[Rule],
    ) -> None:
        self._workspace = workspace
        self._mode = mode
        self._asker = asker
        self._on_grant = on_grant
        self._allow = allow
        self._deny = deny
        self._unsettled: dict[str, Rule] = {}

    async def needs_answer(self, call: ToolCall, tool: Tool) -> bool:
        return self._was_asked(call) or (await self._opinion(call, tool.spec)).outlook is Outlook.ASK

    def judge(self, call: ToolCall, spec: ToolSpec) -> Opinion:
        """What the stance of this moment says about a call. Touches the file system only to resolve paths."""
        stance = Stance(self._mode(), self._allow, self._deny)
        return judge_call(call, spec, facts_about(call, spec, self._workspace), stance)

    async def decide(self, original: ToolCall, effective: ToolCall, tool: Tool, input: BaseModel) -> Decision:
        opinion = await self._opinion(effective, tool.spec)
        # What a person was asked before a restart is theirs to decide, whatever the mode is by now.
        is_theirs = self._was_asked(effective) and not opinion.is_firm
        if opinion.outlook is Outlook.ALLOW and not is_theirs:
            return Allow()
        if opinion.outlook is Outlook.DENY and not is_theirs:
            return Deny(f"Denied by the server: {opinion.reason}. {_NOT_AGAIN}")
        if self._asker is None:
            return Deny(f"Denied: {opinion.reason}, and nobody is there to ask. {_NOT_AGAIN}")
        question = Ask(
            kind=tool.spec.asks or "tool",
            call=effective,
            digest=digest_of(effective.name, effective.input or {}),
            reasons=(opinion.reason,),
            suggested_rules=(str(narrowest_rule(effective)),) if opinion.is_grantable else (),
            display=await to_thread.run_sync(tool.preview, input),  # it reads files
        )
        answer = await self._asker.ask(question)
        return answer if isinstance(answer, Later) else _decision(answer, tool.spec)

    def check_replacement(self, asked: ToolCall, input: Mapping[str, JsonValue], spec: ToolSpec) -> None:
        """Check an input that a person puts in the place of the one that was asked about. Raises: Unprocessable.

        It must be valid, not denied, and touch no protected path that the person was not shown.
        """
        if bounded_input(dict(input)) is None:
            raise Unprocessable("updated_input is nested too deeply.")
        try:
            spec.input.model_validate(dict(input))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise Unprocessable(f"updated_input does not fit {spec.name}: {where}: {first['msg']}") from error
        call = asked.model_copy(update={"input": dict(input)})
        opinion = self.judge(call, spec)
        if opinion.outlook is Outlook.DENY:
            raise Unprocessable(f"updated_input is denied: {opinion.reason}")
        if not self._protected(call, spec) <= self._protected(asked, spec):
            raise Unprocessable("updated_input leads to a protected path that the request did not show.")

    async def _opinion(self, call: ToolCall, spec: ToolSpec) -> Opinion:
        """As `judge`; in a worker where paths are resolved, since a file system may take its time."""
        return await to_thread.run_sync(self.judge, call, spec) if spec.paths else self.judge(call, spec)

    def _protected(self, call: ToolCall, spec: ToolSpec) -> frozenset[str]:
        return frozenset(facts_about(call, spec, self._workspace).protected)

    def _was_asked(self, call: ToolCall) -> bool:
        return self._asker is not None and self._asker.was_asked(call.id)

    def grant(self, call_id: str, rule: Rule, *, settled: bool) -> None:
        """Put a rule in force at once. Unless `settled`, it is recorded only when the call has its result."""
        if rule not in self._allow:
            self._allow.append(rule)
        if not settled:
            self._unsettled[call_id] = rule

    def settled(self, call: ToolCall) -> None:
        rule = self._unsettled.pop(call.id, None)
        if rule is not None:
            self._on_grant(rule)


def facts_about(call: ToolCall, spec: ToolSpec, workspace: Workspace) -> Facts:
    """Resolve the paths a call names and say what kind of place they are."""
    resolve = workspace.resolve_readable if spec.read_only else workspace.resolve
    protected = []
    for name in spec.paths:
        path = (call.input or {}).get(name)
        if not isinstance(path, str):
            continue
        try:
            real = resolve(path)
        except OutsideRoots as error:
            return Facts(outside=str(error))
        except (OSError, ValueError, RuntimeError):
            return Facts(outside=f"{path[:200]} is no usable path")
        if spec.edits and (is_protected_place(real, workspace) or is_protected_as_given(path, workspace)):
            protected.append(path)
    return Facts(protected=tuple(protected))


def digest_of(tool_name: str, input: Mapping[str, JsonValue]) -> str:
    """SHA-256 (hex) over `[tool_name, input]` as JSON: sorted keys, no spaces, not escaped to ASCII."""
    canonical = json.dumps([tool_name, input], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _decision(answer: Answer, spec: ToolSpec) -> Decision:
    if answer.allow:
        return Allow(mode=answer.mode, input=answer.updated_input)
    if answer.expired:
        return Deny(f"The request expired: nobody answered in time. Nobody denied it. {_NOT_AGAIN}")
    who = "The user" if answer.by_person else "The server"
    said = f": {answer.reason.rstrip('.')}." if answer.reason else "."
    if spec.asks == "plan":
        return Deny(f"{who} did not approve the plan{said} Nothing has changed; revise the plan.")
    return Deny(f"{who} denied this call{said} {_NOT_AGAIN}")
