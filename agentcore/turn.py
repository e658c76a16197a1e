"""One attempt at a model call: parts become events, the final message is the truth.

Between `model_start` and `model_end` nothing is stored; the deltas are for display. The assistant message is
emitted and appended in one step. A cancelled call keeps the text that was shown, marked as interrupted. A call that
shows nothing new for too long is ended. Whether it is made again is not decided here (`agentcore.walk`).
"""

from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import anyio

from agentcore.budget import DEFAULT_CONTEXT_WINDOW, Ledger
from agentcore.candidates import Candidate
from agentcore.errors import ProviderError
from agentcore.events import (
    AssistantMessage,
    ModelEnd,
    ModelStart,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from agentcore.ids import new_message_id
from agentcore.messages import Block, Message, Text, Thinking, ToolCall
from agentcore.ports.clock import Clock
from agentcore.ports.log import EventLog
from agentcore.ports.models import Finished, ModelRequest, TextPart, ThinkingPart, ToolCallPart
from agentcore.retry import Patience
from agentcore.stops import Next, Verdict, judge
from agentcore.transcript import Transcript
from agentcore.usage import Usage

INTERRUPTED = "[interrupted by user]"
FAILED = "failed"
"""The stop reason of a `model_end` whose call failed."""
CANCELLED = "interrupted"
ShownPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart
_SLACK = 0.01
"""Part of the silence by which a stall may be noticed later, so that a deadline is not moved with every delta."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that came to nothing."""

    error: ProviderError
    was_shown: bool
    """Something of it was: it cannot be taken back, so the call is not made again."""


@dataclass(slots=True)
class Draft:
    """The assistant message being streamed, as far as it was shown."""

    message_id: str
    provider: str
    model: str
    thinking: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def message(self) -> Message:
        content: list[Block] = []
        if self.thinking:
            content.append(Thinking(text="".join(self.thinking), provider=self.provider, model=self.model))
        if self.text:
            content.append(Text(text="".join(self.text)))
        return Message(id=self.message_id, role="assistant", content=tuple(content))


@dataclass(slots=True)
class _Timing:
    started: float
    first: float | None = None
    thought_until: float | None = None
    has_thought: bool = False

    def saw(self, now: float, *, thinking: bool = False) -> None:
        if self.first is None:
            self.first = now
        if thinking:
            self.has_thought = True
        elif self.thought_until is None:
            self.thought_until = now

    def end(self, turn: int, stop: str, now: float, error: ProviderError | None, *, beside: bool) -> ModelEnd:
        thought = self.thought_until if self.has_thought else None
        return ModelEnd(
            turn=turn,
            stop_reason=stop,
            error_code=None if error is None else error.reason,
            request_ms=_ms(now - self.started),
            ttft_ms=None if self.first is None else _ms(self.first - self.started),
            thinking_ms=None if thought is None else _ms(thought - self.started),
            beside=beside,
        )


class _CallIds:
    """The ids of one answer's calls: as given, but for those that a call of the context has or had before.

    Chosen when a call begins, so that what is shown while it grows has the id that it will run under.
    """

    def __init__(self, transcript: Transcript, repeats: dict[str, int], prefix: str) -> None:
        self._transcript = transcript
        self._repeats = repeats
        self._prefix = prefix
        self._chosen: dict[str, list[str]] = {}
        """By the given id, in the order in which its calls began; those that their blocks took are gone."""
        self._taken: set[str] = set()

    def of_part(self, part: ToolCallPart) -> str:
        chosen = self._chosen.setdefault(part.call_id, [])
        if not chosen or part.size_bytes == 0:
            chosen.append(self._choose(part.call_id))
        return chosen[-1]

    def of_call(self, call: ToolCall) -> str:
        chosen = self._chosen.get(call.id)
        return chosen.pop(0) if chosen else self._choose(call.id)

    def _choose(self, given: str) -> str:
        name = f"{self._prefix}{given or 'call'}"
        number = self._repeats.get(name, 1)
        chosen = name if number == 1 else f"{name}-{number}"
        while chosen in self._taken or self._transcript.has_call(chosen):
            number += 1
            chosen = f"{name}-{number}"
        if number > 1:
            self._repeats[name] = number
        self._taken.add(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class _Attempt:
    turn: int
    candidate: Candidate
    draft: Draft
    timing: _Timing
    ids: _CallIds


class _Watchdog:
    """Ends a call that makes no progress: a part with content, or a tool call that begins or grows."""

    def __init__(self, silence_s: float, now: float) -> None:
        self._silence_s = silence_s
        self._slack_s = silence_s * _SLACK
        self._moved_at = now
        self._sizes: dict[str, int] = {}
        self.scope = anyio.CancelScope(deadline=self._deadline())

    def saw(self, part: ShownPart, now: float) -> None:
        """Take note of a part; cheap, thousands come in a second."""
        if now - self._moved_at < self._slack_s or not self._is_progress(part):
            return
        self._moved_at = now
        self.scope.deadline = self._deadline()

    def _is_progress(self, part: ShownPart) -> bool:
        match part:
            case TextPart(text) | ThinkingPart(text):
                return bool(text)
            case ToolCallPart(call_id, _, size_bytes):
                before = self._sizes.get(call_id, -1)
                self._sizes[call_id] = max(size_bytes, before)
                return size_bytes > before
            case _:
                assert_never(part)

    def _deadline(self) -> float:
        return anyio.current_time() + self._silence_s + self._slack_s


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def window_of(candidate: Candidate) -> int:
    """Tokens that fit into a model's context."""
    return candidate.provider.context_window(candidate.model) or DEFAULT_CONTEXT_WINDOW


class Model:
    """Makes the model calls of one conversation. `draft` is what is being streamed right now, for late readers."""

    _says_beside = False
    """Whether its events have to say that the call is none of the conversation."""

    def __init__(
        self,
        log: EventLog,
        transcript: Transcript,
        ledger: Ledger,
        clock: Clock,
        patience: Patience,
        call_prefix: str = "",
    ) -> None:
        """`call_prefix` begins the ids of all calls: those of the agents of one session must not meet."""
        self._call_prefix = call_prefix
        self._log = log
        self._transcript = transcript
        self._ledger = ledger
        self._clock = clock
        self._patience = patience
        self._repeats: dict[str, int] = {}
        """Of call ids that came again and again: the number that was given last."""
        self.draft: Draft | None = None
        self.last_stop = ""
        """Why the model stopped the last time."""

    async def attempt(self, turn: int, number: int, candidate: Candidate, request: ModelRequest) -> Verdict | Failure:
        """Ask one model once. With an answer store its message and say how the run goes on.

        `number` counts the attempts of the turn. Raises: StorageUnavailable.
        """
        self._check_place()
        self.draft = draft = Draft(new_message_id(), candidate.provider.name, candidate.model)
        timing, stop, is_cut = _Timing(self._clock.monotonic()), FAILED, True
        ids = _CallIds(self._transcript, self._repeats, self._call_prefix)
        beside = self._says_beside
        failed: ProviderError | None = None
        self._log.emit(ModelStart(turn=turn, model=candidate.label, attempt=number, beside=beside))
        try:
            finished = await self._stream(_Attempt(turn, candidate, draft, timing, ids), request)
            stop, is_cut = finished.stop, False
        except ProviderError as error:
            failed = error
            return Failure(error, was_shown=timing.first is not None)
        except anyio.get_cancelled_exc_class():
            stop = CANCELLED
            raise
        finally:
            self.draft, self.last_stop = None, stop
            end = timing.end(turn, stop, self._clock.monotonic(), failed, beside=beside)
            self._log.emit(end)
            self._ledger.asked_model(end.request_ms)
            if is_cut:
                self._keep_text(turn, draft, mark=INTERRUPTED if stop == CANCELLED else "")
        self._account(turn, candidate, finished)
        verdict = self._store(turn, draft.message_id, candidate, finished, ids)
        self._tell_of_end(turn, candidate, verdict, finished.detail)
        return verdict

    def _check_place(self) -> None:
        """Raises: ValueError where no answer may follow: every call has its result first."""
        self._transcript.check_closed()

    async def _stream(self, attempt: _Attempt, request: ModelRequest) -> Finished:
        """Show the answer part by part and return the whole. Raises: ProviderError."""
        provider, monotonic = attempt.candidate.provider, self._clock.monotonic
        silence_s = self._patience.silence_for(is_local=provider.is_local)
        watchdog = _Watchdog(silence_s, attempt.timing.started)
        finished: Finished | None = None
        with watchdog.scope:
            async with provider.stream(request) as parts:
                async for part in parts:
                    if isinstance(part, Finished):
                        finished = part
                        break
                    now = monotonic()
                    watchdog.saw(part, now)
                    try:
                        self._show(attempt, part, now)
                    except ValueError as error:  # an event that cannot be made of it: the adapter let nonsense through
                        said = f"{provider.name} sent an answer that makes no sense. Try again."
                        raise ProviderError("server_error", said) from error
        if finished is not None:
            return finished
        if watchdog.scope.cancelled_caught:
            told = f"{provider.name} has sent nothing new for {silence_s:g} s and was cut off. Try again."
            raise ProviderError("stalled", told)
        raise ProviderError("stream_truncated", f"{provider.name} ended its answer without finishing it. Try again.")

    def _show(self, attempt: _Attempt, part: ShownPart, now: float) -> None:
        turn, draft, timing = attempt.turn, attempt.draft, attempt.timing
        match part:
            case TextPart(text):
                timing.saw(now)
                self._log.emit(TextDelta(turn=turn, text=text))
                draft.text.append(text)
            case ThinkingPart(text):
                timing.saw(now, thinking=True)
                self._log.emit(ThinkingDelta(turn=turn, text=text))
                draft.thinking.append(text)
            case ToolCallPart(_, tool_name, size_bytes):
                timing.saw(now)
                call_id = attempt.ids.of_part(part)
                self._log.emit(ToolCallDelta(turn=turn, call_id=call_id, tool_name=tool_name, size_bytes=size_bytes))
            case _:
                assert_never(part)

    def _account(self, turn: int, candidate: Candidate, finished: Finished) -> None:
        spent = finished.usage or Usage()
        self._report(turn, candidate, spent, is_counted=finished.usage is not None)
        self._transcript.measure(spent.context_tokens)

    def _report(self, turn: int, candidate: Candidate, spent: Usage, *, is_counted: bool) -> None:
        provider = candidate.provider
        spent_usd = provider.cost_usd(candidate.model, spent) if is_counted else None
        self._ledger.spend(spent, spent_usd)
        session = self._ledger.of_session
        self._log.emit(
            UsageReport(
                turn=turn,
                model=candidate.label,
                spent=spent,
                total=session.total,
                spent_usd=spent_usd,
                cost_usd=session.total_cost_usd,
                context_tokens=spent.context_tokens,
                context_window=window_of(candidate),
                beside=self._says_beside,
            )
        )

    def _store(self, turn: int, message_id: str, candidate: Candidate, finished: Finished, ids: _CallIds) -> Verdict:
        content = finished.content
        verdict = judge(finished.stop, content, candidate.label)
        if verdict.next in (Next.END, Next.FAIL):
            content = tuple(block for block in content if not isinstance(block, ToolCall))
        message = Message(id=message_id, role="assistant", content=tuple(_renamed(block, ids) for block in content))
        self._ledger.text = message.text
        self._append(turn, message, final=verdict.next is Next.END)
        return verdict

    def _tell_of_end(self, turn: int, candidate: Candidate, verdict: Verdict, detail: str) -> None:
        """Say so when an answer ended otherwise than the model would have it."""
        who, why = candidate.label, f" ({detail})" if detail else ""
        match verdict:
            case Verdict(Next.END, "refusal"):
                advice = "Put the prompt otherwise, clear the session, or use another model."
                self._tell(turn, "refused", f"{who} refused to answer{why}. {advice}")
            case Verdict(Next.END, "max_tokens"):
                advice = "Ask it to go on, or raise max_tokens."
                self._tell(turn, "cut_at_max_tokens", f"The answer of {who} was cut at its limit of tokens. {advice}")

    def _tell(self, turn: int, code: str, text: str) -> None:
        self._log.emit(Notice(turn=turn, level="warning", code=code, text=text))

    def _keep_text(self, turn: int, draft: Draft, mark: str = "") -> None:
        """Keep what was shown of a broken call; reasoning without its seal cannot be sent back and is left out."""
        if not draft.text:
            return
        text = "\n\n".join(piece for piece in ("".join(draft.text), mark) if piece)
        message = Message(id=draft.message_id, role="assistant", content=(Text(text=text),))
        self._ledger.text = text
        self._append(turn, message, final=False)

    def _append(self, turn: int, message: Message, *, final: bool) -> None:
        if not message.content:
            return
        self._log.emit(AssistantMessage(turn=turn, message=message, final=final))
        self._transcript.add_assistant(message)


class SideModel(Model):
    """Makes model calls beside the conversation: they are announced and paid for, and nothing of them is shown or
    stored. As nothing is shown, a call that breaks off may be made again."""

    answer: Finished
    """Of the last call that was answered."""

    def _check_place(self) -> None:
        pass  # it may be made while calls wait: nothing of it follows them

    def _show(self, attempt: _Attempt, part: ShownPart, now: float) -> None:
        pass

    def _account(self, turn: int, candidate: Candidate, finished: Finished) -> None:
        self._report(turn, candidate, finished.usage or Usage(), is_counted=finished.usage is not None)

    def _store(self, turn: int, message_id: str, candidate: Candidate, finished: Finished, ids: _CallIds) -> Verdict:
        self.answer = finished
        return Verdict(Next.END)


class HookModel(SideModel):
    """As its base, for the checks of hooks: these come at any moment, so each of their events says what they are."""

    _says_beside = True


def _renamed(block: Block, ids: _CallIds) -> Block:
    return block.model_copy(update={"id": ids.of_call(block)}) if isinstance(block, ToolCall) else block
