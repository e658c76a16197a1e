"""When a context is compacted, and what is done then. Satisfies the Compactor port.

A compaction is announced, asked for, and put in force in one step: `compacted` in the journal, then the transcript.
Whatever ends it before that step leaves the transcript as it was. It never goes on for ever: where a compacted context
is still too large the run ends, and the error says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agentcore.budget import Ledger
from agentcore.compaction import parts, words
from agentcore.compaction.summary import Summarizer
from agentcore.errors import ProviderError, RunFailed, Unprocessable
from agentcore.estimate import tokens_of
from agentcore.events import (
    Compacted,
    CompactionStart,
    CompactionStrategy,
    CompactionTrigger,
    Notice,
    UserMessage,
)
from agentcore.ids import new_message_id
from agentcore.messages import Block, Message, Text, ToolResult
from agentcore.ports.hooks import NO_HOOKS, Halted, Hooks
from agentcore.ports.log import EventLog
from agentcore.skills.kept import reattached
from agentcore.transcript import Transcript
from agentcore.turn import SideModel, window_of
from agentcore.walk import Walk

MIN_MESSAGES = 4  # the contract's: fewer are not compacted by themselves
_LEAST_PROGRESS = 0.9
"""A context that begins above this part of its limit would be compacted with every other turn."""
NOTHING = "There is nothing to compact: {why}."


class _Blocked(Exception):
    """A hook wants the context to stay as it is; `str(error)` says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a user wants it."""

    strategy: CompactionStrategy = "summarize"
    is_automatic: bool = True
    """Off: only on request, not even where the context does not fit."""
    at: float = 0.8
    """The part of the window above which it is automatic."""


async def unchecked(summary: str) -> str:
    return summary


@dataclass(frozen=True, slots=True)
class Scene:
    """The conversation that is compacted."""

    transcript: Transcript
    ledger: Ledger
    log: EventLog
    walk: Walk
    side: SideModel
    fixed_tokens: Callable[[], int]
    """Estimate of system prompt and tools."""
    journal: str
    """Where the model finds its files."""
    sound_messages: Callable[[], Sequence[Message]]
    """Those of the transcript, mended first where a vendor would refuse them."""
    hooks: Hooks = NO_HOOKS
    check_summary: Callable[[str], Awaitable[str]] = unchecked
    """What the guard makes of a summary."""


@dataclass(slots=True)
class ContextCompactor:
    """For one run, or one request."""

    scene: Scene
    plan: Plan
    _has_failed: bool = False
    """A failed summary is not asked for again with every turn."""

    async def make_room(self, turn: int) -> None:
        transcript = self.scene.transcript
        if not self.plan.is_automatic or self._has_failed or len(transcript) < MIN_MESSAGES:
            return
        limit = int(self._window * self.plan.at)
        if self._tokens <= limit or self._why_not(self.scene.sound_messages()) is not None or self._tokens <= limit:
            return
        self._check_can_fit(limit)
        try:
            compacted = await self._compact(turn, "auto")
        except ProviderError as error:
            self._has_failed = True
            text = f"The context is nearly full and could not be compacted: {error} The run goes on as it is."
            self.scene.log.emit(Notice(turn=turn, level="warning", code="compaction_failed", text=text))
            return
        except _Blocked as why:
            self._has_failed = True
            self._tell_blocked(turn, why)
            return
        await self._tell_hooks("auto", compacted)
        self._check_fits(limit)

    async def recover(self, turn: int) -> bool:
        if not self.plan.is_automatic or self.scene.ledger.has_overflowed:
            return False
        messages = self.scene.sound_messages()
        self._check_can_fit(self._window)
        if self._why_not(messages) is not None:
            return False
        try:
            compacted = await self._compact(turn, "overflow")
        except ProviderError as error:
            told = f"The conversation no longer fits the model's context window and could not be compacted: {error}"
            raise RunFailed("context_window_exceeded", f"{told} {_WAYS_OUT}") from error
        except _Blocked as why:
            self._tell_blocked(turn, why)
            return False
        self._check_fits(self._window)
        self._ask_to_continue(turn)
        await self._tell_hooks("overflow", compacted)
        return True

    async def on_request(self) -> str:
        """Compact because somebody asks, outside of a run; return the summary.

        Raises: Unprocessable where there is nothing to compact; ProviderError, Paused, StorageUnavailable.
        """
        if (why := self._why_not(self.scene.sound_messages())) is not None:
            raise Unprocessable(NOTHING.format(why=why))
        try:
            compacted = await self._compact(0, "request")
        except _Blocked as why:
            raise Unprocessable(f"A hook blocked the compaction: {why}") from why
        await self._tell_hooks("request", compacted)
        return compacted.summary

    # --- doing it ---

    async def _compact(self, turn: int, trigger: CompactionTrigger) -> Compacted:
        """Compact a transcript that was found sound. Raises: ProviderError, Paused, StorageUnavailable, and then
        nothing has changed."""
        messages = self.scene.transcript.messages
        log, before, started_turn = self.scene.log, self._tokens, turn or None
        await self._hear_hooks(trigger)  # nothing is announced yet
        start = CompactionStart(turn=started_turn, trigger=trigger, estimated_tokens=before)
        self.scene.ledger.has_overflowed |= trigger == "overflow"
        log.emit(start)
        try:
            summary = await self.scene.check_summary(await self._summary(turn, messages))
        except BaseException:  # a cancel as well: every start has its end
            log.emit(
                Compacted(
                    turn=started_turn,
                    strategy=self.plan.strategy,
                    ok=False,
                    before_tokens=before,
                    after_tokens=before,
                )
            )
            raise
        return self._replace(start, summary)

    async def _hear_hooks(self, trigger: CompactionTrigger) -> None:
        """Raises: Halted in a run, else _Blocked."""
        heard = await self.scene.hooks.compacting(trigger)
        if heard.is_halt and trigger != "request":
            raise Halted
        if heard.is_halt or heard.blocked is not None:
            raise _Blocked(heard.blocked or "it ended it.")

    def _tell_blocked(self, turn: int, why: _Blocked) -> None:
        text = f"A hook blocked the compaction of a context that is nearly full: {why}"
        self.scene.log.emit(Notice(turn=turn, level="warning", code="compaction_blocked", text=text))

    async def _tell_hooks(self, trigger: CompactionTrigger, compacted: Compacted) -> None:
        """Let hooks add to the new context. Raises: Halted in a run."""
        heard = await self.scene.hooks.compacted(trigger, compacted.summary)
        if heard.context:
            content = tuple(Text(text=text) for text in heard.context)
            message = UserMessage(turn=compacted.turn, id=new_message_id(), content=content, source="hook")
            self.scene.log.emit(message)
            self.scene.transcript.add_user(message.id, message.content)
        if heard.is_halt and trigger != "request":
            raise Halted

    async def _summary(self, turn: int, messages: Sequence[Message]) -> str:
        summarizer = Summarizer(self.scene.walk, self.scene.side)
        if self.plan.strategy == "keep_recent":
            return await summarizer.of_text(turn, messages[: parts.recent(messages)])
        return await summarizer.of_conversation(turn, messages)

    def _replace(self, start: CompactionStart, summary: str) -> Compacted:
        """Put the summary in the place of the conversation: one step."""
        transcript, kept = self.scene.transcript, self._kept()
        note = words.note(summary, transcript.todos, self.scene.journal)
        goes_on = start.trigger != "request" and not kept
        text = f"{note}\n\n{words.CONTINUE}" if goes_on else note
        replaced = [one for one in transcript.messages if one not in kept]
        skills = reattached(replaced, self._window)
        message = Message(id=new_message_id(), role="user", content=(Text(text=text), *skills))
        compacted = Compacted(
            turn=start.turn,
            strategy=self.plan.strategy,
            ok=True,
            summary=summary,
            before_tokens=start.estimated_tokens,
            after_tokens=self._floor() + tokens_of(message.content),
            message=message,
            kept=tuple(one.id for one in kept),
        )
        self.scene.log.emit(compacted)
        transcript.compact(message, compacted.kept)
        return compacted

    def _ask_to_continue(self, turn: int) -> None:
        """Where a partial answer stands last the model is asked to go on: not every vendor takes that for a request."""
        last = self.scene.transcript.last
        if last is None or last.role == "user":
            return
        message = UserMessage(turn=turn, id=new_message_id(), content=(Text(text=words.CONTINUE),), source="hook")
        self.scene.log.emit(message)
        self.scene.transcript.add_user(message.id, message.content)

    # --- what stays, and whether it fits ---

    def _why_not(self, messages: Sequence[Message]) -> str | None:
        """Why there is nothing to compact in a sound transcript, None where there is: what is mended may be less."""
        if not parts.is_compactable(messages):
            return "nothing was answered in this context yet"
        if self.plan.strategy == "keep_recent" and not parts.recent(messages):
            return f"the last {parts.RECENT} messages are kept, and there are no more"
        return None

    def _kept(self) -> tuple[Message, ...]:
        messages = self.scene.transcript.messages
        if self.plan.strategy == "keep_recent":
            return messages[parts.recent(messages) :]
        return messages[-1:] if parts.unanswered(messages) else ()

    def _kept_blocks(self) -> tuple[Block, ...]:
        """Of what is kept, the blocks that `Transcript.compact` leaves."""
        first, *others = self._kept() or (None,)
        if first is None:
            return ()
        said = tuple(block for block in first.content if first.role != "user" or not isinstance(block, ToolResult))
        return (*said, *(block for one in others for block in one.content))

    def _floor(self) -> int:
        """Tokens below which no summary can bring the context."""
        return self.scene.fixed_tokens() + tokens_of(self._kept_blocks())

    @property
    def _window(self) -> int:
        return window_of(self.scene.walk.nearest)

    @property
    def _tokens(self) -> int:
        return self.scene.transcript.tokens(self.scene.fixed_tokens)

    def _check_can_fit(self, limit: int) -> None:
        """Spend nothing on a summary that cannot help. Raises: RunFailed."""
        # what the first call with a summary really used tells more than the estimate
        if self._floor() > limit or (self.scene.transcript.overhead or 0) > limit * _LEAST_PROGRESS:
            raise self._too_large()

    def _check_fits(self, limit: int) -> None:
        """Raises: RunFailed when the compacted context is still too large."""
        if self._tokens > limit:
            raise self._too_large()

    def _too_large(self) -> RunFailed:
        """The error that names what takes the room."""
        transcript, window = self.scene.transcript, self._window
        fixed = max(self.scene.fixed_tokens(), transcript.overhead or 0)
        largest = max((tokens_of(one.content) for one in transcript.messages), default=0)
        if fixed >= largest:
            cause = f"system prompt and tools alone take about {fixed:,}"
        else:
            cause = f"one message alone takes about {largest:,}"
        told = f"The context is too large even when it is compacted: of {window:,} tokens {cause}."
        return RunFailed("context_window_exceeded", f"{told} {_WAYS_OUT}")


_WAYS_OUT = "Use a model with a larger window, clear the session, or send less at once."
