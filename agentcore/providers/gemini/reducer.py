"""From the events of one answer to parts and, once the model gave a reason to end, to `Finished`.

The vendor has no event that ends an answer: `finishReason` or `blockReason` says that it is ended, but older models
and some proxies repeat it on every event, so all of the body is read. Text that only differs by its event is one
block; a part that carries a signature is a block of its own, and goes back as one (see `marks`).

`MALFORMED_FUNCTION_CALL` and the other failures of the model are passed on as they are, with the tokens they cost:
the run ends and names them. They are no `ProviderError`, since the service itself did what it promised.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from pydantic_core import from_json

from agentcore.caps import bounded_input
from agentcore.messages import Block, Opaque, ToolCall
from agentcore.ports.models import Finished, StreamPart, ToolCallPart
from agentcore.providers.faults import Faults
from agentcore.providers.gemini.arguments import Arguments
from agentcore.providers.gemini.marks import ID, SIGNATURE, mark
from agentcore.providers.growing import GrowingText, GrowingThinking, Wire, count, name_in
from agentcore.usage import Usage

_STOPS = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("ESCALATION", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        "refusal",
    ),
}
"""The neutral words; any other reason is passed on as the vendor's own."""
_BLOCKED = "SAFETY"
"""In the place of every `blockReason`: the prompt was refused. Its `blockReasonMessage` is not the model's text."""
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")
_KNOWN = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"})


class _Growing(Protocol):
    """What becomes one block, with the marks that stand before it."""

    def blocks(self) -> Iterator[Block]: ...


_New = TypeVar("_New", bound=_Growing)


class Reducer:
    """Holds what has arrived of one answer."""

    is_done = False
    """The end of the body is the only sure end."""

    def __init__(self, provider: str, model: str, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._growing: list[_Growing] = []
        self._usage: Wire = {}
        self._stop = ""
        self._detail = ""
        self._seen: set[str] = set()
        self._is_end_sure = False

    @property
    def has_ended(self) -> bool:
        """A reason to end was given; as a rule nothing follows."""
        return bool(self._stop)

    @property
    def is_end_sure(self) -> bool:
        """The reason does not stand on every event: there were some before it, and nothing of the answer since."""
        return self._is_end_sure

    def take(self, data: bytes) -> Sequence[StreamPart]:
        value = from_json(data)
        # A list: the whole answer of a proxy that passes over `alt=sse`.
        return [part for event in (value if isinstance(value, list) else [value]) for part in self._take(event)]

    def finish(self) -> Finished:
        if not self._stop:
            if self._seen and not self._seen & _KNOWN:
                raise self._faults.of("not_found", "what answered does not speak the protocol of Gemini")
            raise self._faults.of("stream_truncated")
        content = tuple(block for growing in self._growing for block in growing.blocks())
        has_calls = any(isinstance(block, ToolCall) for block in content)
        stop = "tool_use" if self._stop == "STOP" and has_calls else _STOPS.get(self._stop, self._stop)
        usage = _usage(self._usage) if self._usage else None
        return Finished(content=content, usage=usage, stop=stop, detail=self._detail)

    def _take(self, event: Wire) -> Iterator[StreamPart]:
        if "error" in event:
            raise self._faults.of_event(event["error"])
        was_open = bool(self._seen) and not self._stop
        self._seen |= event.keys()
        counts = event.get("usageMetadata") or {}
        if any(name.endswith("TokenCount") for name in counts):
            self._usage = counts  # each is the sum so far
        for candidate in event.get("candidates") or ():
            if candidate.get("index", 0) == 0:  # no other one was asked for
                yield from self._take_candidate(candidate)
        is_blocked = bool((event.get("promptFeedback") or {}).get("blockReason"))
        if is_blocked:
            self._stop = _BLOCKED
            self._detail = _why(event["promptFeedback"], "blockReason", "blockReasonMessage")
        if event.get("candidates") or is_blocked:
            self._is_end_sure = bool(self._stop) and (was_open or is_blocked)

    def _take_candidate(self, candidate: Wire) -> Iterator[StreamPart]:
        for part in (candidate.get("content") or {}).get("parts") or ():
            yield from self._take_part(part)
        if (reason := candidate.get("finishReason")) not in _NO_REASON:
            self._stop = reason
            self._detail = _why(candidate, "finishReason", "finishMessage") if reason != "STOP" else ""

    def _take_part(self, part: Wire) -> Sequence[StreamPart]:
        if "functionCall" in part:
            return self._take_call(part["functionCall"], _signature(part))
        if type(part.get("text")) is str:
            if not part["text"] and _signature(part) is None:
                return ()  # as the last event often has it; must not come between the pieces of a call
            shown = self._take_thought(part) if part.get("thought") is True else self._take_text(part)
            return () if shown is None else (shown,)
        if part and "inlineData" not in part:  # media that a model makes has no place in a transcript
            self._grow(_Whole(self._provider, self._model, part))
        return ()

    def _take_text(self, part: Wire) -> StreamPart | None:
        signature = _signature(part)
        if signature is not None and not part["text"]:
            self._grow(_Whole(self._provider, self._model, {"text": "", SIGNATURE: signature}))
            return None
        last = self._newest
        if signature is not None or not isinstance(last, _Text) or last.signature is not None:
            last = self._grow(_Text(self._provider, self._model, signature))
        return last.add(part["text"])

    def _take_thought(self, part: Wire) -> StreamPart | None:
        last = self._newest
        if not isinstance(last, _Thought) or last.signature is not None:
            last = self._grow(_Thought(self._provider, self._model))
        last.signature = _signature(part)
        return last.add(part["text"])

    def _take_call(self, call: Wire, signature: str | None) -> Sequence[StreamPart]:
        """A call that begins, whole or not, has a name; pieces that follow have none."""
        last = self._newest
        if call.get("name"):
            last = self._grow(_Call(self._provider, self._model, call))
        elif not isinstance(last, _Call) or last.arguments.is_complete:
            if call:
                raise ValueError("more of a call that never began")
            return ()
        return last.take(call, signature)

    @property
    def _newest(self) -> _Growing | None:
        return self._growing[-1] if self._growing else None

    def _grow(self, new: _New) -> _New:
        self._growing.append(new)
        return new


class _Text(GrowingText):
    def __init__(self, provider: str, model: str, signature: str | None) -> None:
        super().__init__()
        self._own = (provider, model)
        self.signature = signature

    def blocks(self) -> Iterator[Block]:
        if (text := self.block()) is not None:
            if self.signature is not None:
                yield mark(*self._own, text, SIGNATURE, self.signature)
            yield text


class _Thought(GrowingThinking):
    def blocks(self) -> Iterator[Block]:
        if (thinking := self.block()) is not None:
            yield thinking


class _Call:
    def __init__(self, provider: str, model: str, start: Wire) -> None:
        self._own = (provider, model)
        self._name = name_in(start["name"])
        self._given_id = name_in(start.get("id") or "") or None
        self._id = self._given_id or f"call_{secrets.token_hex(8)}"
        self._signature: str | None = None
        self.arguments = Arguments()

    def take(self, call: Wire, signature: str | None) -> list[StreamPart]:
        """Take the first piece or one more: a call begins with no size, and says so before it grows."""
        begins = [ToolCallPart(self._id, self._name, 0)] if not self.arguments.was_begun else []
        self._signature = signature or self._signature
        size_bytes = self.arguments.size_bytes
        self.arguments.take(call)
        if self.arguments.size_bytes == size_bytes:
            return [*begins]
        return [*begins, ToolCallPart(self._id, self._name, self.arguments.size_bytes)]

    def blocks(self) -> Iterator[Block]:
        call = ToolCall(id=self._id, name=self._name, input=self.arguments.parse())
        if self._signature is not None:
            yield mark(*self._own, call, SIGNATURE, self._signature)
        if self._given_id is not None:
            yield mark(*self._own, call, ID, self._given_id)
        yield call


class _Whole:
    """A part that only the vendor understands, or one of a signature alone."""

    def __init__(self, provider: str, model: str, part: Wire) -> None:
        self._own = (provider, model)
        self._part = part

    def blocks(self) -> Iterator[Block]:
        if (raw := bounded_input(self._part)) is not None:  # deeper than any journal can hold it: left out
            yield Opaque(provider=self._own[0], model=self._own[1], raw=raw)


def _why(told: Wire, reason: str, message: str) -> str:
    """The vendor's reason, what it says about it, and the kinds of harm that it saw."""
    ratings = told.get("safetyRatings")
    harms = [one.get("category") for one in ratings or () if one.get("blocked") is True]
    said = (told.get(reason), told.get(message), *harms)
    return ": ".join(text for text in said if type(text) is str and text)


def _signature(part: Wire) -> str | None:
    value = part.get(SIGNATURE)
    return value if isinstance(value, str) and value else None


def _usage(counts: Wire) -> Usage:
    cached, thoughts = count(counts, "cachedContentTokenCount"), count(counts, "thoughtsTokenCount")
    read = count(counts, "promptTokenCount") + count(counts, "toolUsePromptTokenCount")  # the first holds `cached`
    return Usage(
        input=max(read - cached, 0),
        output=count(counts, "candidatesTokenCount") + thoughts,  # the first is without thoughts
        cache_read=cached,
        reasoning=thoughts,
    )
