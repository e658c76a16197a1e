"""The gate of one session: judges each call, asks a person where the stance says so, remembers what was granted.

The judging is in `decision`; here is the conversation with those who can answer: a model in mode `auto`, and a person.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio
from anyio import to_thread
from pydantic import BaseModel, JsonValue, ValidationError

from agentcore.caps import bounded_input
from agentcore.errors import ProviderError, Unprocessable
from agentcore.events import Mode
from agentcore.messages import ToolCall
from agentcore.permissions.decision import Opinion, Outlook, Stance, judge_call
from agentcore.permissions.facts import facts_about
from agentcore.permissions.grants import Standing
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import Rule
from agentcore.permissions.suggestions import suggested_rules
from agentcore.permissions.workspace import Workspace
from agentcore.ports.permission import UNHOOKED, Allow, Answer, Ask, Asker, Decision, Deny, HookSays, Judge, Later
from agentcore.ports.tools import Tool, ToolSpec

_NOT_AGAIN = "Do not try the same call again; find another way or ask the user what to do."
JUDGE_TIMEOUT_S = 30.0
"""After that a person is asked; a small model answers in a few seconds."""
NO_RULES = Rulebook()
JUDGED_PROMPTS = 3
"""The contract's: of the conversation the model sees only the user's last three prompts."""


@dataclass(frozen=True, slots=True)
class Auto:
    """What mode `auto` works with."""

    judge: Judge
    prompts: Callable[[], Sequence[str]]
    """The user's prompts so far, the newest last; the last few are enough."""


class SessionGate:
    """Satisfies the Gate port."""

    def __init__(
        self,
        workspace: Workspace,
        mode: Callable[[], Mode],
        asker: Asker | None,
        standing: Standing,
        *,
        is_sandboxed: Callable[[], bool] = lambda: False,
        sandbox_allows: bool = False,
        auto: Auto | None = None,
        added: Rulebook = NO_RULES,
    ) -> None:
        """`is_sandboxed`: whether shell commands run in a sandbox, as far as is known; `sandbox_allows`: then they need
        no question. Without `auto` that mode asks. `added` are rules beside the standing ones."""
        self._added = added
        self.standing = standing
        self._workspace = workspace
        self._mode = mode
        self._asker = asker
        self._is_sandboxed = is_sandboxed
        self._sandbox_allows = sandbox_allows
        self._auto = auto

    async def needs_answer(self, call: ToolCall, tool: Tool) -> bool:
        return self._was_asked(call) or (await self._opinion(call, tool.spec)).outlook is Outlook.ASK

    def judge(self, call: ToolCall, spec: ToolSpec, says: HookSays = UNHOOKED) -> Opinion:
        """What the stance of this moment says about a call. Touches the file system only to resolve paths."""
        is_sandboxed = self._is_sandboxed()
        rules, allows = self.standing.book + self._added, is_sandboxed and self._sandbox_allows
        stance = Stance(self._mode(), rules, allows, is_sandboxed)
        return judge_call(call, spec, facts_about(call, spec, self._workspace), stance, says)

    async def decide(
        self, original: ToolCall, effective: ToolCall, tool: Tool, input: BaseModel, says: HookSays = UNHOOKED
    ) -> Decision:
        opinion = await self._opinion(effective, tool.spec, says)
        # What a person was asked before a restart is theirs to decide, whatever the mode is by now.
        is_theirs = self._was_asked(effective) and not opinion.is_firm
        objection = None
        if not is_theirs and self._is_for_judge(opinion):
            objection = await self._objection(effective)
            if objection is None and self._mode() == "auto":
                return Allow()
            opinion = await self._opinion(effective, tool.spec, says)  # the mode counts at once
        if opinion.outlook is Outlook.ALLOW and not is_theirs:
            return Allow()
        if opinion.outlook is Outlook.DENY and not is_theirs:
            return Deny(f"Denied by the server: {opinion.reason}. {_NOT_AGAIN}")
        if says.verdict == "allow" and tool.spec.asks == "question" and _has_own_answers(original, effective):
            return Allow()
        if self._asker is None:
            return Deny(f"Denied: {opinion.reason}, and nobody is there to ask. {_NOT_AGAIN}")
        question = Ask(
            kind=tool.spec.asks or "tool",
            call=effective,
            digest=digest_of(effective.name, effective.input or {}),
            reasons=(opinion.reason,) if objection is None else (opinion.reason, objection),
            suggested_rules=await self._suggested(effective, tool.spec) if opinion.is_grantable else (),
            display=await to_thread.run_sync(tool.preview, input),  # it reads files
            is_put_off=opinion.is_put_off,
            needs_person=not opinion.is_grantable,
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

    def rule_for(self, call: ToolCall, spec: ToolSpec) -> str:
        """The narrowest rule that would allow a call. Raises: Unprocessable where none does."""
        rules = suggested_rules(call, spec, facts_about(call, spec, self._workspace))
        if not rules or not self.judge(call, spec).is_grantable:
            raise Unprocessable("updated_input can only be allowed once: leave `always` and `scope` out.")
        return str(rules[0])

    def grant(self, call_id: str, rule: Rule, *, settled: bool) -> None:
        """Put a rule in force at once. Unless `settled`, it is recorded only when the call has its result."""
        self.standing.grant(call_id, rule, settled=settled)

    def settled(self, call: ToolCall) -> None:
        self.standing.settle(call.id)

    # --- inside ---

    async def _opinion(self, call: ToolCall, spec: ToolSpec, says: HookSays = UNHOOKED) -> Opinion:
        """As `judge`; in a worker where paths are resolved, since a file system may take its time."""
        if spec.paths or call.name == "bash":
            return await to_thread.run_sync(self.judge, call, spec, says)
        return self.judge(call, spec, says)

    async def _suggested(self, call: ToolCall, spec: ToolSpec) -> tuple[str, ...]:
        def suggest() -> tuple[str, ...]:
            return tuple(map(str, suggested_rules(call, spec, facts_about(call, spec, self._workspace))))

        return await to_thread.run_sync(suggest)

    def _is_for_judge(self, opinion: Opinion) -> bool:
        """Whether a model may settle it: only what no rule, hook or place wants a person for."""
        is_open = opinion.outlook is Outlook.ASK and opinion.is_grantable
        return is_open and self._auto is not None and self._mode() == "auto"

    async def _objection(self, call: ToolCall) -> str | None:
        """What the model says against a call; None for nothing. What goes wrong there is a reason to ask a person."""
        assert self._auto is not None
        prompts = tuple(self._auto.prompts())[-JUDGED_PROMPTS:]
        with anyio.move_on_after(JUDGE_TIMEOUT_S):
            try:
                return await self._auto.judge.objection(call.model_copy(deep=True), prompts)
            except ProviderError as error:
                return f"the model that should check it failed: {error.code}"
        return "the model that should check it did not answer in time"

    def _protected(self, call: ToolCall, spec: ToolSpec) -> frozenset[str]:
        return frozenset(facts_about(call, spec, self._workspace).protected)

    def _was_asked(self, call: ToolCall) -> bool:
        return self._asker is not None and self._asker.was_asked(call.id)


def digest_of(tool_name: str, input: Mapping[str, JsonValue]) -> str:
    """SHA-256 (hex) over `[tool_name, input]` as JSON: sorted keys, no spaces, not escaped to ASCII."""
    canonical = json.dumps([tool_name, input], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _has_own_answers(original: ToolCall, effective: ToolCall) -> bool:
    """Whether a hook answered a question in the person's place; what the model put there itself is no answer."""
    answers = (effective.input or {}).get("answers")
    return bool(answers) and answers != (original.input or {}).get("answers")


def _decision(answer: Answer, spec: ToolSpec) -> Decision:
    if answer.allow:
        return Allow(mode=answer.mode, input=answer.updated_input)
    if answer.expired:
        return Deny(f"The request expired: nobody answered in time. Nobody denied it. {_NOT_AGAIN}")
    who = "The user" if answer.by_person else "The server"
    said = f": {answer.reason.rstrip('.')}." if answer.reason else "."
    if spec.asks == "plan":
        return Deny(f"{who} did not approve the plan{said} Nothing has changed; revise the plan.")
    if spec.asks == "question":
        silence = "The user did not answer" if answer.by_person else "Nobody answered"
        return Deny(f"{silence}{said} Decide for yourself, and say what you assumed.")
    return Deny(f"{who} denied this call{said} {_NOT_AGAIN}")
