"""From the events of one answer to parts and, at the terminal event, to `Finished`.

The content is built from the items that were done, in the order of their `output_index`, and of their coming where
that is missing or the same for all. What no event of its own told is taken from the list in the terminal event, which
some servers leave empty. Events that are not known are passed over. One reducer serves one answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic_core import from_json

from agentcore.messages import Block, ToolCall
from agentcore.ports.models import Finished, StreamPart
from agentcore.providers.faults import Faults
from agentcore.providers.growing import Wire, count, details
from agentcore.providers.openai.items import Answer, Item, new_item
from agentcore.usage import Usage

_DONE = b"[DONE]"  # OpenRouter ends its streams as in Chat Completions; it is no terminal event here
_ITEM_OF_DELTA = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
"""The deltas that are read, with what they are part of: some servers announce no items."""
_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal", "None": "max_tokens"}
"""The neutral words; a server that gives no reason cut the answer for its length."""


@dataclass(slots=True)
class _Place:
    """An item of the answer, and where it stands."""

    index: int
    kind: str
    id: object
    item: Item
    is_open: bool = True


class Reducer:
    """Holds what has arrived of one answer."""

    def __init__(self, provider: str, model: str, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._places: list[_Place] = []
        """In the order in which they began."""
        self._last: dict[object, _Place] = {}
        """The newest by its `output_index`, as it was given."""
        self._response: Wire = {}
        self._has_started = False
        self._is_incomplete = False
        self.is_done = False

    def take(self, data: bytes) -> Sequence[StreamPart]:
        if data == _DONE:
            return ()
        event = from_json(data)
        kind = event.get("type")
        if kind in _ITEM_OF_DELTA:
            return self._growing(event).item.grow(event)
        return self._take_rare(kind, event)

    def finish(self) -> Finished:
        if not self.is_done:
            raise self._faults.of("stream_truncated")
        content = tuple(block for place in self._in_order() for block in place.item.blocks())
        counts = self._response.get("usage")
        stop = self._stop(content)
        detail = str(self._why_incomplete) if self._is_incomplete and stop == "refusal" else ""
        return Finished(content=content, usage=_usage(counts) if counts else None, stop=stop, detail=detail)

    def _take_rare(self, kind: object, event: Wire) -> Sequence[StreamPart]:
        match kind:
            case "response.created":
                if self._has_started:
                    raise self._faults.of("server_error", "it began a second answer inside the first")
                self._has_started = True
            case "response.output_item.added":
                return self._begin(event, event["item"]).item.begin()
            case "response.output_item.done":
                return self._end(event, event["item"])
            case "response.completed" | "response.incomplete" | "response.done":  # the last: OpenRouter
                return self._complete(event["response"], is_incomplete=kind == "response.incomplete")
            case None if event.get("object") == "response":  # the whole answer, of a server that passes over `stream`
                return self._complete(event, is_incomplete=False)
            case "response.failed":
                raise self._faults.of_event(details(details(event, "response"), "error"))
            case "error":
                raise self._faults.of_event(event.get("error") or event | {"type": None})
            case None if "error" in event or type(event.get("message")) is str:
                raise self._faults.of_event(event.get("error") or event)
        return ()

    def _growing(self, event: Wire) -> _Place:
        """The item that a delta belongs to. Raises: ValueError where it had ended."""
        place = self._place_of(event)
        if place is None:
            return self._begin(event, {"type": _ITEM_OF_DELTA[event["type"]]})
        if not place.is_open:
            raise ValueError("more of an item that had ended")
        return place

    def _place_of(self, event: Wire) -> _Place | None:
        """The newest item at an event's place; the newest of all where the event names none."""
        if event.get("output_index") is None:
            return self._places[-1] if self._places else None
        return self._last.get(event["output_index"])

    def _begin(self, event: Wire, start: Wire) -> _Place:
        """Begin an item. Some servers have all of them at one place. Raises: ValueError where it had begun."""
        kind, id, index = str(start.get("type")), start.get("id"), event.get("output_index")
        before = self._place_of(event)
        if before is not None and id is not None and id == before.id and (before.is_open or kind == before.kind):
            raise ValueError("an item begins twice")
        item = new_item(start, len(self._places), self._provider, self._model)
        number = index if type(index) is int else self._places[-1].index if self._places else 0
        place = self._last[index] = _Place(number, kind, id, item)
        self._places.append(place)
        return place

    def _end(self, event: Wire, done: Wire) -> Sequence[StreamPart]:
        place, shown = self._place_of(event), list[StreamPart]()
        if place is None or not place.is_open or place.kind != done.get("type"):
            place = self._begin(event, done)
            shown += place.item.begin()
        place.is_open = False
        return (*shown, *place.item.end(done))

    def _complete(self, response: Wire, *, is_incomplete: bool) -> Sequence[StreamPart]:
        """Take the terminal event: the state of the answer, and what no event of its own told."""
        if response.get("status") == "failed":
            raise self._faults.of_event(details(response, "error"))
        self._response = response
        self._is_incomplete = is_incomplete or response.get("status") == "incomplete"
        self.is_done = True
        return list(self._untold(response.get("output") or []))

    def _untold(self, output: list[Wire]) -> Iterator[StreamPart]:
        """End what never ended, begin and end what never came; nothing where the list is of something else."""
        places = self._in_order()
        if [item.get("type") for item in output[: len(places)]] != [place.kind for place in places]:
            return
        for place, done in zip(places, output, strict=False):
            if place.is_open:
                place.is_open = False
                yield from place.item.end(done)
        after = places[-1].index + 1 if places else 0
        for index, done in enumerate(output[len(places) :], start=after):
            yield from self._end({"output_index": index}, done)

    def _in_order(self) -> list[_Place]:
        return sorted(self._places, key=lambda place: place.index)

    @property
    def _why_incomplete(self) -> object:
        return details(self._response, "incomplete_details").get("reason")

    def _stop(self, content: Sequence[Block]) -> str:
        """The neutral word, else `incomplete:` and the vendor's reason."""
        if self._is_incomplete:
            reason = str(self._why_incomplete)
            return _INCOMPLETE.get(reason, f"incomplete:{reason}")
        if any(isinstance(place.item, Answer) and place.item.is_refusal for place in self._places):
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
