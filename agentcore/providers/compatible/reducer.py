"""From the chunks of one answer to parts and, with a finish reason or `[DONE]`, to `Finished`.

Strict where a mistake would be acted on: a tool's input counts only if its text is one whole JSON object, and an
answer only with one of its two ends. Lenient where nothing depends on it: unknown fields, chunks without choices or
delta, odd token counts. One reducer serves one answer.
"""

from collections.abc import Sequence
from typing import Any, cast

from pydantic_core import from_json

from agentcore.errors import ProviderErrorKind
from agentcore.messages import Block, ToolCall
from agentcore.ports.models import Finished, StreamPart
from agentcore.providers.compatible.body import DETAILS, THINKING
from agentcore.providers.compatible.calls import GrowingCall, GrowingCalls
from agentcore.providers.compatible.reasoning import GrowingDetails, Reasoning
from agentcore.providers.compatible.usage import usage_of
from agentcore.providers.faults import Faults
from agentcore.providers.growing import GrowingText, GrowingThinking, Wire, details
from agentcore.providers.sse import BARE_ERROR, DONE

_STOPS = {
    "stop": "end_turn",
    "complete": "end_turn",  # Cohere
    "eos": "end_turn",  # Together
    "eos_token": "end_turn",  # text-generation-inference
    "tool_calls": "tool_use",
    "tool_call": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "model_context_window_exceeded",  # Mistral
    "sensitive": "refusal",  # Z.ai
    "safety": "refusal",  # Gemini behind gateways
    # Their own words of vendors behind gateways, in any case.
    **{word: word for word in ("end_turn", "stop_sequence", "tool_use", "max_tokens", "refusal")},
}
"""By the service's word in lower case."""
_FILTERED = "content_filter"
"""Some add why: `content_filter: PROHIBITED_CONTENT`."""
_ENDS_WELL = frozenset({"", "end_turn", "stop_sequence"})
_FAILURES: dict[str, ProviderErrorKind] = {
    "error": "server_error",  # OpenRouter, Mistral
    "network_error": "server_error",  # Z.ai
    "insufficient_system_resource": "overloaded",  # DeepSeek
}
"""Finish reasons that are errors: the answer is no answer."""


class Reducer:
    """Holds what has arrived of one answer."""

    def __init__(self, provider: str, model: str, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._shown: list[StreamPart] = []
        self._blocks: list[GrowingText | GrowingThinking | GrowingCall] = []
        self._calls = GrowingCalls()
        self._reasoning = Reasoning()
        self._sealed = {field: GrowingDetails(provider, model, field) for field in (DETAILS, THINKING)}
        self._usage: Wire = {}
        self._reason = ""
        self._has_begun = False
        self._has_refused = False
        self.is_ending = False
        """The last that came was a finish reason: only token counts and `[DONE]` should follow."""
        self.is_done = False

    def take(self, data: bytes) -> Sequence[StreamPart]:
        if data.strip() == DONE:
            self.is_done = True
            return ()
        if data.startswith(BARE_ERROR):
            raise self._faults.of_event(_bare_error(data))
        event = from_json(data)
        if (error := _error_of(event)) is not None:
            raise self._faults.of_event(error)
        self._shown, was_ending = [], self.is_ending
        for choice in event.get("choices") or ():
            if choice.get("index") in (0, None):  # no other answer was asked for
                self._take_choice(choice)
        if self._take_usage(event) and was_ending and self.is_ending:
            # Beside a choice they can stand with each of several calls; alone nothing follows them but `[DONE]`.
            self.is_done = not (self.has_calls and event.get("choices"))
        return self._shown

    @property
    def has_calls(self) -> bool:
        """Whether the answer has called a tool so far."""
        return self._calls.have_begun

    def finish(self) -> Finished:
        if not self._has_begun or not (self.is_done or self._reason):
            raise self._faults.of("stream_truncated")
        growing = (*self._sealed.values(), *self._blocks)
        extras = self._calls.extras(self._provider, self._model)
        content = tuple(block for block in (extras, *(each.block() for each in growing)) if block)
        stop, usage = self._stop(content), usage_of(self._usage) if self._usage else None
        is_filtered = stop == "refusal" and not self._has_refused
        return Finished(content=content, usage=usage, stop=stop, detail=self._reason if is_filtered else "")

    def _stop(self, content: Sequence[Block]) -> str:
        """The neutral word. Calls mean `tool_use` also where the service says `stop`, or nothing."""
        if self._has_refused:
            return "refusal"
        reason = self._reason.lower()
        stop = "refusal" if reason.startswith(_FILTERED) else _STOPS.get(reason, self._reason)
        has_calls = any(isinstance(block, ToolCall) for block in content)
        return "tool_use" if has_calls and stop in _ENDS_WELL else stop

    def _take_choice(self, choice: Wire) -> None:
        self._has_begun = True
        if error := choice.get("error"):
            raise self._faults.of_event(error)
        if delta := choice.get("delta"):
            self._take_delta(delta)
        elif (message := choice.get("message")) and not self._blocks:  # the whole answer at once, else what was said
            self._take_delta(message)
        if self._shown:
            self.is_ending = False  # some give a reason with each of several calls
        if reason := choice.get("finish_reason"):
            if (kind := _FAILURES.get(reason.lower())) is not None:
                raise self._faults.of(kind, f"it ended its answer with {reason}")
            self._reason, self.is_ending = reason, True

    def _take_delta(self, delta: Wire) -> None:
        self._think(self._reasoning.text_of(delta))
        for field, sealed in self._sealed.items():
            if isinstance(entries := delta.get(field), list):
                sealed.add(entries)
        content = delta.get("content")
        if isinstance(content, list):
            self._take_parts(content)
        else:
            self._say(content)
        if refusal := delta.get("refusal"):
            self._has_refused = True
            self._say(refusal)
        for piece in delta.get("tool_calls") or ():
            self._take_call(piece)
        if function := delta.get("function_call"):  # the form before `tool_calls`
            self._take_call({"index": 0, "function": function})

    def _take_parts(self, content: list[Any]) -> None:
        """Content as a list of parts: typed (Mistral, Databricks), or texts."""
        for part in content:
            match part:
                case str() | {"type": "text", "text": str()}:
                    self._say(_text_of(part))
                case {"type": "thinking", "thinking": said} | {"type": "reasoning", "summary": said}:
                    self._think("".join(map(_text_of, said)) if isinstance(said, list) else said)

    def _say(self, text: object) -> None:
        last = self._blocks[-1] if self._blocks else None
        block = last if isinstance(last, GrowingText) else GrowingText()
        self._show(block, last, block.add(text))

    def _think(self, text: object) -> None:
        last = self._blocks[-1] if self._blocks else None
        block = last if isinstance(last, GrowingThinking) else GrowingThinking(self._provider, self._model)
        self._show(block, last, block.add(text))

    def _show(self, block: GrowingText | GrowingThinking, last: object, part: StreamPart | None) -> None:
        """Show what was added; a block that is not the last one begins with it."""
        if part is None:
            return
        if block is not last:
            self._blocks.append(block)
        self._shown.append(part)

    def _take_call(self, piece: Wire) -> None:
        begun, parts = self._calls.take(piece)
        if begun is not None:
            self._blocks.append(begun)
        self._shown += parts

    def _take_usage(self, event: Wire) -> bool:
        """Take the counts of a chunk; whether it has any. Null ones leave what came before."""
        usage = event.get("usage") or details(event, "x_groq").get("usage") or _usage_of_choice(event)
        if not isinstance(usage, dict):
            return False
        self._usage.update({name: value for name, value in usage.items() if value is not None})
        return True


def _usage_of_choice(event: Wire) -> object:
    """Moonshot has the counts beside the finish reason."""
    choices = event.get("choices")
    return choices[0].get("usage") if choices else None


def _text_of(part: str | Wire) -> str:
    return part if isinstance(part, str) else part.get("text") or ""


def _error_of(event: Wire) -> object | None:
    """The error that a chunk tells of: as `error`, or, where there is no answer in it, by itself (vLLM, Mistral)."""
    if error := event.get("error") or details(event, "x_groq").get("error"):
        return cast(object, error)
    if details(event, "base_resp").get("status_code"):  # MiniMax; 0 in a chunk that is none
        return {"message": event["base_resp"].get("status_msg")}
    if event.get("choices") is not None:
        return None
    is_error = (
        event.get("object") == "error"
        or event.get("detail")
        or any(isinstance(event.get(name), str) for name in ("message", "msg"))
    )
    return event if is_error else None


def _bare_error(line: bytes) -> object:
    """What GPUStack says in a line of its own: an error body, or a sentence."""
    said = line.removeprefix(BARE_ERROR).strip()
    try:
        body = from_json(said)
    except ValueError:
        return said.decode(errors="replace")
    return body.get("error", body) if isinstance(body, dict) else body
