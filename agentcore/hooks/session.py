"""What the loop is told by a session's hooks: each moment is heard, and many answers become one. The Hooks port.

Of several decisions the strictest counts, of several rewrites the last one in the order of the settings; whatever is
for the model is marked as a hook's.
"""

from collections.abc import Sequence
from pathlib import Path

from agentcore.events import CompactionTrigger
from agentcore.hooks import payloads
from agentcore.hooks.matching import names_of_tool
from agentcore.hooks.output import UNSAID, VERDICTS, Said
from agentcore.hooks.payloads import text_of_response
from agentcore.hooks.room import HookRoom, Occasion
from agentcore.hooks.words import context_text, feedback_text
from agentcore.messages import ToolCall, ToolResult
from agentcore.permissions.names import is_known, native_name
from agentcore.ports.hooks import AfterCall, BeforeCall, EndedRun, Halted, Heard, SessionSource
from agentcore.ports.permission import UNHOOKED, Answer, Ask, HookSays
from agentcore.ports.tools import Outcome

LAST_S = 1.5
"""What SessionEnd hooks share, and RunEnd hooks of a cancelled run, unless one is given more: the conventions'."""
MOST_LAST_S = 60.0
_TRIGGERS = {"auto": "auto", "overflow": "auto", "request": "manual"}


class SessionHooks:
    """Satisfies the Hooks port."""

    def __init__(self, room: HookRoom) -> None:
        self.room = room

    # --- the session and its prompts ---

    @property
    def has_prompt_hooks(self) -> bool:
        return self.room.has("UserPromptSubmit")

    @property
    def has_end_hooks(self) -> bool:
        return self.room.has("SessionEnd")

    async def session_started(self, source: SessionSource) -> Heard:
        if source != "compact":
            await self.room.begin_exports()
        fields = payloads.of_start(self.room.now, source)
        said = await self._hear("SessionStart", fields, source)
        if said:
            await self.room.take_exports()
        return _heard("SessionStart", said)

    async def prompt_submitted(self, text: str) -> Heard:
        heard = _heard("UserPromptSubmit", await self._hear("UserPromptSubmit", {"prompt": text}))
        if heard.blocked is not None:
            self.room.notice("warning", "prompt_blocked", f"A hook blocked the prompt: {heard.blocked}")
        return heard

    async def session_ended(self, reason: str) -> None:
        await self._hear("SessionEnd", {"reason": reason}, reason, within_s=self._last_s("SessionEnd"))

    def notify(self, kind: str, message: str) -> None:
        self.room.start(Occasion("Notification", {"notification_type": kind, "message": message}, (kind,)))

    # --- calls ---

    async def before_call(self, call: ToolCall) -> BeforeCall:
        said = await self._hear_call("PreToolUse", call, payloads.of_call(call, self._cwd))
        if not said:
            return BeforeCall()
        tool = next((one.tool_name for one in reversed(said) if one.tool_name), None)
        return BeforeCall(
            says=_strictest(said),
            tool_name=tool and (native_name(tool) if is_known(native_name(tool)) else tool),
            input=next((one.input for one in reversed(said) if one.input is not None), None),
            context=_contexts("PreToolUse", said),
            is_halt=_is_halt(said),
        )

    async def permission_request(self, question: Ask) -> Answer | None:
        said = await self._hear_call("PermissionRequest", question.call, payloads.of_question(question, self._cwd))
        answers = [one.permission for one in said if one.permission is not None]
        if _is_halt(said) or any(answer.is_halt for answer in answers):
            raise Halted
        refusals = [answer for answer in answers if not answer.is_allowed]
        if refusals:
            reason = " ".join(answer.message for answer in refusals if answer.message) or UNSAID
            return Answer(allow=False, by_person=False, reason=f"a hook says: {reason}")
        if not answers:
            return None
        replaced = next((answer.input for answer in reversed(answers) if answer.input is not None), None)
        if replaced is not None and not isinstance(replaced, dict):
            self.room.notice("warning", "hook_failed", "A PermissionRequest hook gave an input that is no object.")
            return None
        rules = tuple(rule for answer in answers for rule in answer.updates.rules)
        mode = next((answer.updates.mode for answer in reversed(answers) if answer.updates.mode is not None), None)
        return Answer(allow=True, by_person=False, updated_input=replaced, mode=mode, rules=rules)

    async def after_call(self, call: ToolCall, outcome: Outcome, duration_ms: int) -> AfterCall:
        event = "PostToolUseFailure" if outcome.is_error else "PostToolUse"
        fields = payloads.of_failure if outcome.is_error else payloads.of_success
        said = await self._hear_call(event, call, fields(call, outcome, duration_ms, self._cwd))
        replaced = (text_of_response(one.output) for one in reversed(said))
        return AfterCall(
            output=next((text for text in replaced if text is not None), None),
            context=(*_contexts(event, said), *_feedback(event, said)),
            is_halt=_is_halt(said),
        )

    async def after_batch(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> Heard:
        heard = _heard("PostToolBatch", await self._hear("PostToolBatch", payloads.of_batch(results, self._cwd)))
        if heard.blocked is not None:
            self.room.notice("warning", "hook_stopped", f"A hook stopped the run after its calls: {heard.blocked}")
        return heard

    # --- the end of a run ---

    async def stopping(self, text: str, *, is_continued: bool) -> Heard:
        fields = payloads.of_stop(text, self.room.now, is_continued=is_continued)
        return _sent_on("Stop", await self._hear("Stop", fields))

    async def stop_failed(self, code: str, text: str) -> None:
        await self._hear("StopFailure", {"error": code, "error_details": text}, code)

    async def run_ended(self, run: EndedRun) -> None:
        within_s = self._last_s("RunEnd") if run.stop_reason == "interrupted" else None
        await self._hear("RunEnd", payloads.of_run(run), within_s=within_s)

    def run_left(self, run: EndedRun) -> None:
        self.room.start(Occasion("RunEnd", payloads.of_run(run)))

    # --- compaction ---

    async def compacting(self, trigger: CompactionTrigger) -> Heard:
        told = _TRIGGERS[trigger]
        fields = {"trigger": told, "custom_instructions": ""}
        return _heard("PreCompact", await self._hear("PreCompact", fields, told))

    async def compacted(self, trigger: CompactionTrigger, summary: str) -> Heard:
        told = _TRIGGERS[trigger]
        after = await self._hear("PostCompact", {"trigger": told, "compact_summary": summary}, told)
        heard = await self.session_started("compact")  # scripts tell the model again what a summary may have lost
        return Heard(context=heard.context, is_halt=heard.is_halt or _is_halt(after))

    # --- subagents ---

    async def subagent_started(self, agent_id: str, agent_type: str) -> Heard:
        fields = {"agent_id": agent_id, "agent_type": agent_type}
        return _heard("SubagentStart", await self._hear("SubagentStart", fields, agent_type))

    async def subagent_stopping(self, agent_id: str, agent_type: str, text: str, *, is_continued: bool) -> Heard:
        fields = {
            "agent_id": agent_id,
            "agent_type": agent_type,
            "agent_transcript_path": self.room.transcript_path,  # where its events are, under its label
            **payloads.of_stop(text, self.room.now, is_continued=is_continued),
        }
        return _sent_on("SubagentStop", await self._hear("SubagentStop", fields, agent_type))

    # --- inside ---

    @property
    def _cwd(self) -> Path:
        return self.room.now.cwd

    async def _hear(
        self, event: str, fields: payloads.Fields, value: str = "", within_s: float | None = None
    ) -> list[Said]:
        return await self.room.hear(Occasion(event, fields, (value,), within_s=within_s))

    async def _hear_call(self, event: str, call: ToolCall, fields: payloads.Fields) -> list[Said]:
        return await self.room.hear(Occasion(event, fields, names_of_tool(call.name), call))

    def _last_s(self, event: str) -> float:
        return min(MOST_LAST_S, max(LAST_S, self.room.longest_s(event)))


def _strictest(said: Sequence[Said]) -> HookSays:
    for verdict in VERDICTS:
        reasons = [one.reason for one in said if one.verdict == verdict]
        if reasons:
            return HookSays(verdict, "\n".join(reason for reason in reasons if reason))
    return UNHOOKED


def _is_halt(said: Sequence[Said]) -> bool:
    return any(one.is_halt for one in said)


def _contexts(event: str, said: Sequence[Said]) -> tuple[str, ...]:
    return tuple(context_text(event, one.context) for one in said if one.context)


def _feedback(event: str, said: Sequence[Said]) -> tuple[str, ...]:
    return tuple(feedback_text(event, one.blocked) for one in said if one.blocked is not None)


def _heard(event: str, said: Sequence[Said]) -> Heard:
    blocked = [one.blocked for one in said if one.blocked is not None]
    return Heard(
        context=_contexts(event, said),
        blocked="\n".join(blocked) if blocked else None,
        is_halt=_is_halt(said),
        title=next((one.title for one in reversed(said) if one.title), None),
    )


def _sent_on(event: str, said: Sequence[Said]) -> Heard:
    """What sends a run on is all for the model."""
    heard = _heard(event, said)
    return Heard(context=(*heard.context, *_feedback(event, said)), blocked=heard.blocked, is_halt=heard.is_halt)
