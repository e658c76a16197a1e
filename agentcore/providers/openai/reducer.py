"""From the events of one answer to parts and, at the terminal event, to `Finished`.

The content is built from the items that were done, in the order of their `output_index`; the list in the terminal
event is not needed, and some servers leave it empty. Events that are not known are passed over. One reducer serves one
answer.
"""

from collections.abc import Sequence

from pydantic_core import from_json

from agentcore.messages import Block, ToolCall
from agentcore.ports import Finished, StreamPart
from agentcore.providers.faults import Faults
from agentcore.providers.growing import Wire, count, details
from agentcore.providers.openai.items import Answer, Item, new_item
from agentcore.usage import Usage

_DONE = b"[DONE]"  # OpenRouter ends its streams as in Chat Completions; it is no terminal event here
_DELTAS = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    }
)
_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class Reducer:
    """Holds what has arrived of one answer."""

    def __init__(self, provider: str, model: str, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._open: dict[int, Item] = {}
        self._items: dict[int, Item] = {}
        self._response: Wire = {}
        self._has_started = False
        self._is_incomplete = False
        self.is_done = False

    def take(self, data: bytes) -> Sequence[StreamPart]:
        if data == _DONE:
            return ()
        event = from_json(data)
        kind = event.get("type")
        if kind in _DELTAS:
            return self._open[event["output_index"]].grow(event)
        return self._take_rare(kind, event)

    def finish(self) -> Finished:
        if not self.is_done:
            raise self._faults.of("stream_truncated")
        content = tuple(block for _, item in sorted(self._items.items()) for block in item.blocks())
        return Finished(content=content, usage=_usage(self._response.get("usage") or {}), stop=self._stop(content))

    def _take_rare(self, kind: object, event: Wire) -> Sequence[StreamPart]:
        match kind:
            case "response.created":
                if self._has_started:
                    raise self._faults.of("server_error", "it began a second answer inside the first")
                self._has_started = True
            case "response.output_item.added":
                return self._begin(event["output_index"], event["item"])
            case "response.output_item.done":
                return self._end(event["output_index"], event["item"])
            case "response.completed" | "response.incomplete":
                self._response = event["response"]
                self._is_incomplete = kind == "response.incomplete" or self._response.get("status") == "incomplete"
                self.is_done = True
            case "response.failed":
                raise self._faults.of_event(details(event["response"], "error"))
            case "error":
                raise self._faults.of_event(
                    event.get("error") or {"code": event.get("code"), "message": event["message"]}
                )
            case None if "error" in event:
                raise self._faults.of_event(event["error"])
        return ()

    def _begin(self, index: int, start: Wire) -> Sequence[StreamPart]:
        if index in self._items:
            raise ValueError("an item begins twice")
        item = new_item(start, index, self._provider, self._model)
        self._open[index] = self._items[index] = item
        return item.begin()

    def _end(self, index: int, done: Wire) -> Sequence[StreamPart]:
        shown = () if index in self._items else self._begin(index, done)
        return (*shown, *self._open.pop(index).end(done))

    def _stop(self, content: Sequence[Block]) -> str:
        """The neutral word, else `incomplete:` and the vendor's reason."""
        if self._is_incomplete:
            reason = str(details(self._response, "incomplete_details").get("reason"))
            return _INCOMPLETE.get(reason, f"incomplete:{reason}")
        if any(isinstance(item, Answer) and item.is_refusal for item in self._items.values()):
            return "refusal"
        return "tool_use" if any(isinstance(block, ToolCall) for block in content) else "end_turn"


def _usage(counts: Wire) -> Usage:
    read = details(counts, "input_tokens_details")
    cache_read, cache_write = count(read, "cached_tokens"), count(read, "cache_write_tokens")
    return Usage(
        input=max(0, count(counts, "input_tokens") - cache_read - cache_write),  # the vendor's number includes both
        output=count(counts, "output_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=count(details(counts, "output_tokens_details"), "reasoning_tokens"),
    )
