"""From the lines of one answer to parts and, with the line that is `done`, to `Finished`.

Calls come whole, their arguments as an object. Strict where a mistake would be acted on: arguments count only if they
are one whole JSON object, and an answer only with its last line. Lenient in odd token counts and unknown fields.
"""

from collections.abc import Iterator, Sequence

from pydantic_core import from_json, to_json

from agentcore.messages import ToolCall
from agentcore.ports.models import Finished, StreamPart, ToolCallPart
from agentcore.providers.faults import Faults
from agentcore.providers.growing import GrowingInput, GrowingText, GrowingThinking, Wire, count, name_in
from agentcore.usage import Usage

_STOPS = {
    "": "end_turn",  # of versions before there was a reason
    "stop": "end_turn",  # beside calls as well
    "length": "max_tokens",
}
"""Others (`load`, `unload`) are no end of an answer and are passed on."""


class Reducer:
    """Holds what has arrived of one answer."""

    def __init__(self, provider: str, model: str, faults: Faults, window: int) -> None:
        self._faults = faults
        self._window = window
        self._thinking = GrowingThinking(provider, model)
        self._text = GrowingText()
        self._calls: list[ToolCall] = []
        self._last: Wire = {}
        self.is_done = False

    def take(self, data: bytes) -> Sequence[StreamPart]:
        line = from_json(data)
        if (error := line.get("error")) is not None:
            raise self._faults.of_event(error)
        message = line.get("message") or {}
        parts: list[StreamPart | None] = [
            self._thinking.add(message.get("thinking")),
            self._text.add(message.get("content")),
        ]
        for call in message.get("tool_calls") or ():
            parts += self._take_call(call)
        if line.get("done") is True:
            self._last = line
            self.is_done = True
        return [part for part in parts if part is not None]

    def finish(self) -> Finished:
        if not self.is_done:
            raise self._faults.of("stream_truncated")
        blocks = (self._thinking.block(), self._text.block(), *self._calls)
        return Finished(
            content=tuple(block for block in blocks if block is not None),
            usage=_usage(self._last),
            stop=self._stop(),
        )

    def _take_call(self, wire: Wire) -> Iterator[StreamPart]:
        function = wire["function"]
        call_id = name_in(wire.get("id") or f"call-{len(self._calls)}")  # old versions give none
        name, arguments = name_in(function["name"]), function.get("arguments")
        text = arguments if isinstance(arguments, str) else to_json({} if arguments is None else arguments).decode()
        growing = GrowingInput()
        growing.add(text)
        self._calls.append(ToolCall(id=call_id, name=name, input=growing.parse()))
        yield ToolCallPart(call_id, name, 0)
        yield ToolCallPart(call_id, name, growing.size_bytes)

    def _stop(self) -> str:
        said: str = self._last.get("done_reason") or ""
        stop = _STOPS.get(said, said)
        if stop == "end_turn" and self._calls:
            return "tool_use"
        if stop == "max_tokens" and self._is_full():
            return "model_context_window_exceeded"
        return stop

    def _is_full(self) -> bool:
        """The answer ended because the window did, which has the same reason as a limit that was asked for."""
        return count(self._last, "prompt_eval_count") + count(self._last, "eval_count") >= self._window


def _usage(last: Wire) -> Usage | None:
    if not {"prompt_eval_count", "eval_count"} & last.keys():
        return None
    return Usage(input=count(last, "prompt_eval_count"), output=count(last, "eval_count"))
