"""One model call: parts become events, the final message is the truth.

Between `model_start` and `model_end` nothing is stored; the deltas are for display. The assistant message is
emitted and appended in one step. A cancelled call keeps the text that was shown, marked as interrupted.
"""

from dataclasses import dataclass, field
from typing import assert_never

import anyio

from agentcore.budget import DEFAULT_CONTEXT_WINDOW, Ledger
from agentcore.errors import ProviderError
from agentcore.events import (
    AssistantMessage,
    ModelEnd,
    ModelStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from agentcore.ids import new_message_id
from agentcore.messages import Block, Message, Text, Thinking, ToolCall
from agentcore.ports import (
    Clock,
    EventLog,
    Finished,
    ModelRequest,
    Provider,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agentcore.stops import Next, Verdict, judge
from agentcore.transcript import Transcript

INTERRUPTED = "[interrupted by user]"
FAILED = "failed"
"""The stop reason of a `model_end` whose call failed."""
CANCELLED = "interrupted"


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

    def saw(self, now: float, *, thinking: bool) -> None:
        if self.first is None:
            self.first = now
        if thinking:
            self.has_thought = True
        elif self.thought_until is None:
            self.thought_until = now

    def end(self, turn: int, stop: str, now: float) -> ModelEnd:
        thought = self.thought_until if self.has_thought else None
        return ModelEnd(
            turn=turn,
            stop_reason=stop,
            request_ms=_ms(now - self.started),
            ttft_ms=None if self.first is None else _ms(self.first - self.started),
            thinking_ms=None if thought is None else _ms(thought - self.started),
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class Model:
    """Makes the model calls of one conversation. `draft` is what is being streamed right now, for late readers."""

    def __init__(self, log: EventLog, transcript: Transcript, ledger: Ledger, clock: Clock) -> None:
        self._log = log
        self._transcript = transcript
        self._ledger = ledger
        self._clock = clock
        self.draft: Draft | None = None

    async def call(self, turn: int, request: ModelRequest, provider: Provider) -> Verdict:
        """Make one call, store its message, and say how the run goes on. Raises: ProviderError, StorageUnavailable."""
        self._transcript.check_closed()
        label = f"{provider.name}/{request.model}"
        self.draft = draft = Draft(new_message_id(), provider.name, request.model)
        timing, stop = _Timing(self._clock.monotonic()), FAILED
        self._log.emit(ModelStart(turn=turn, model=label))
        try:
            finished = await self._stream(turn, request, provider, draft, timing)
            stop = finished.stop
        except anyio.get_cancelled_exc_class():
            stop = CANCELLED
            raise
        finally:
            self.draft = None
            self._log.emit(timing.end(turn, stop, self._clock.monotonic()))
            if stop in (FAILED, CANCELLED):
                self._keep_text(turn, draft, mark=INTERRUPTED if stop == CANCELLED else "")
        self._account(turn, label, finished, provider.context_window(request.model))
        return self._store(turn, draft.message_id, finished)

    async def _stream(
        self, turn: int, request: ModelRequest, provider: Provider, draft: Draft, timing: _Timing
    ) -> Finished:
        emit, monotonic = self._log.emit, self._clock.monotonic
        async with provider.stream(request) as parts:
            async for part in parts:
                match part:
                    case TextPart(text):
                        timing.saw(monotonic(), thinking=False)
                        draft.text.append(text)
                        emit(TextDelta(turn=turn, text=text))
                    case ThinkingPart(text):
                        timing.saw(monotonic(), thinking=True)
                        draft.thinking.append(text)
                        emit(ThinkingDelta(turn=turn, text=text))
                    case ToolCallPart(call_id, tool_name, size_bytes):
                        timing.saw(monotonic(), thinking=False)
                        emit(ToolCallDelta(turn=turn, call_id=call_id, tool_name=tool_name, size_bytes=size_bytes))
                    case Finished():
                        return part
                    case _:
                        assert_never(part)
        raise ProviderError("stream_truncated", f"{provider.name} ended its answer without finishing it. Try again.")

    def _account(self, turn: int, label: str, finished: Finished, window: int | None) -> None:
        self._ledger.spend(finished.usage)
        self._log.emit(
            UsageReport(
                turn=turn,
                model=label,
                spent=finished.usage,
                total=self._ledger.total,
                context_tokens=finished.usage.context_tokens,
                context_window=window or DEFAULT_CONTEXT_WINDOW,
            )
        )

    def _store(self, turn: int, message_id: str, finished: Finished) -> Verdict:
        content = finished.content
        verdict = judge(finished.stop, content)
        if verdict.next in (Next.END, Next.FAIL):
            content = tuple(block for block in content if not isinstance(block, ToolCall))
        message = Message(id=message_id, role="assistant", content=self._with_unique_ids(content))
        self._ledger.text = message.text
        self._append(turn, message, final=verdict.next is Next.END)
        return verdict

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

    def _with_unique_ids(self, content: tuple[Block, ...]) -> tuple[Block, ...]:
        """Rename calls whose id was used before in this context, or twice in this message."""
        seen: set[str] = set()
        renamed: list[Block] = []
        for block in content:
            if isinstance(block, ToolCall):
                block = block.model_copy(update={"id": self._unique(block.id, seen)})
                seen.add(block.id)
            renamed.append(block)
        return tuple(renamed)

    def _unique(self, call_id: str, seen: set[str]) -> str:
        candidate, n = call_id or "call", 1
        while candidate in seen or self._transcript.has_call(candidate):
            n += 1
            candidate = f"{call_id or 'call'}-{n}"
        return candidate
