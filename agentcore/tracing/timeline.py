"""A session's journal and its trace file as one story: what happened, in order, with what belongs together as one.

A model call holds its requests and its answer, a tool call its permission request, a subagent all that is its own. It
is made of encoded events and requests alone, so the session need not be loaded.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json

from agentcore.tracing.requests import Line, Request, restored

Event: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = Literal["prompt", "model", "tool", "permission", "compaction", "notice", "end", "agent", "note"]
_SHORT_CHARS = 100
_SAID_ELSEWHERE = frozenset({"status", "turn_start", "turn_end", "queue_update", "waiting"})


@dataclass(slots=True)
class Node:
    """One thing that happened."""

    kind: Kind
    title: str
    at: float
    """Unix seconds."""
    ms: int | None = None
    """How long it took; None: unknown, or not over."""
    facts: list[str] = field(default_factory=list)
    """Short ones, shown beside the title."""
    texts: list[tuple[str, str]] = field(default_factory=list)
    """Long ones, each under a name."""
    children: list["Node"] = field(default_factory=list)
    is_bad: bool = False


class Story:
    """Takes the events of a session in order; `nodes` is what became of them."""

    def __init__(self, requests: Iterable[Line]) -> None:
        self.nodes: list[Node] = []
        self._requests = _Requests(requests)
        self._tracks: dict[str | None, _Track] = {None: _Track(self.nodes, self._requests, None)}

    def take(self, event: Event) -> None:
        self._track_of(event).take(event)

    def _track_of(self, event: Event) -> "_Track":
        agent = event.get("agent")
        if agent not in self._tracks:
            holder = self._tracks[None].calls.get(event.get("for_call", ""))
            node = Node("agent", str(agent), event["ts"])
            (self.nodes if holder is None else holder.children).append(node)
            self._tracks[agent] = _Track(node.children, self._requests, agent)
        return self._tracks[agent]


class _Requests:
    """What was sent, handed out to the model calls that sent it."""

    def __init__(self, lines: Iterable[Line]) -> None:
        waiting: dict[str | None, list[Line]] = {}
        for line in lines:
            waiting.setdefault(line.agent, []).append(line)
        self._coming = {agent: restored(of_agent) for agent, of_agent in waiting.items()}
        self._next = {agent: next(requests, None) for agent, requests in self._coming.items()}
        self._before: dict[tuple[str, str | None], Any] = {}

    def until(self, agent: str | None, seq: int) -> Iterator[tuple[Request, str]]:
        """Those of an agent that were sent before event `seq`, each with what was new in it."""
        while (request := self._next.get(agent)) is not None and request.after_seq < seq:
            self._next[agent] = next(self._coming[agent], None)
            key = (request.address, agent)
            body = _parsed(request.body)
            yield request, news(self._before.get(key), body)
            self._before[key] = body


def news(before: Any, body: Any) -> str:
    """What a request says that the one before it did not: whole fields, and of lists that have grown their new end."""
    if not isinstance(before, dict) or not isinstance(body, dict):
        return _pretty(body)
    new, same = {}, []
    for name, value in body.items():
        old = before.get(name)
        if name in before and old == value:
            same.append(f"{name} ({len(value)})" if isinstance(value, list) else name)
        elif isinstance(old, list) and isinstance(value, list) and value[: len(old)] == old:
            new[f"{name}, behind the first {len(old)}"] = value[len(old) :]
        else:
            new[name] = value
    said = f"as before: {', '.join(same)}\n" if same else ""
    return said + _pretty(new)


class _Track:
    """The events of the session itself, or of one subagent."""

    def __init__(self, nodes: list[Node], requests: _Requests, agent: str | None) -> None:
        self._nodes = nodes
        self._requests = requests
        self._agent = agent
        self._call: Node | None = None
        self._tools: dict[str, Node] = {}
        self._asked: dict[str, Node] = {}
        self._compaction: Node | None = None
        self.calls: dict[str, Node] = {}
        """By id; those that have ended too, as a subagent in the background begins no sooner than its call ends."""

    def take(self, event: Event) -> None:
        kind = event["type"]
        if kind in _TAKES:
            _TAKES[kind](self, event)
        elif kind not in _SAID_ELSEWHERE:
            self._add(Node("note", kind.replace("_", " "), event["ts"], texts=[("", _pretty(_said(event)))]))

    def _add(self, node: Node) -> Node:
        self._nodes.append(node)
        return node

    # --- prompts and ends ---

    def user_message(self, event: Event) -> None:
        source = event.get("source") or "prompt"
        said = event.get("display_text") or " ".join(block.get("text", "") for block in event["content"])
        title = _short(said) if source == "prompt" else f"{source}: {_short(said)}"
        self._add(Node("prompt", title, event["ts"], texts=[("what the model is shown", _pretty(event["content"]))]))

    def done(self, event: Event) -> None:
        node = Node("end", str(event["stop_reason"]), event["ts"], is_bad=event["stop_reason"] == "error")
        node.facts += _money(event)
        self._add(node)

    def error(self, event: Event) -> None:
        self._add(Node("end", f"{event['code']}: {event['text']}", event["ts"], is_bad=True))

    def notice(self, event: Event) -> None:
        is_bad = event["level"] == "warning"
        self._add(Node("notice", f"{event['code']}: {event['text']}", event["ts"], is_bad=is_bad))

    # --- model calls ---

    def model_start(self, event: Event) -> None:
        self._call = self._add(Node("model", str(event["model"]), event["ts"]))
        if event.get("attempt", 1) > 1:
            self._call.facts.append(f"attempt {event['attempt']}")

    def model_end(self, event: Event) -> None:
        node = self._call or self._add(Node("model", "a model", event["ts"]))
        node.ms, node.is_bad = event.get("request_ms"), event["stop_reason"] == "failed"
        node.facts.append(str(event["stop_reason"]))
        if event.get("ttft_ms") is not None:
            node.facts.append(f"first word after {event['ttft_ms']} ms")
        for request, new in self._requests.until(self._agent, event["seq"]):
            node.texts.append((f"sent to {request.address}", new))
            node.texts.append(("headers", _pretty(request.headers)))

    def usage(self, event: Event) -> None:
        if self._call is None:
            return
        spent = event["spent"]
        read = sum(spent.get(name, 0) for name in ("input", "cache_read", "cache_write"))
        self._call.facts.append(f"{read} in ({spent.get('cache_read', 0)} cached), {spent.get('output', 0)} out")
        if event.get("spent_usd") is not None:
            self._call.facts.append(f"${event['spent_usd']:.4f}")

    def assistant_message(self, event: Event) -> None:
        if self._call is not None:
            self._call.texts.append(("answer", _pretty(event["message"]["content"])))

    # --- tools ---

    def tool_start(self, event: Event) -> None:
        first = next((value for value in event["input"].values() if isinstance(value, str)), "")
        node = self._add(Node("tool", f"{event['tool_name']} {_short(first)}".rstrip(), event["ts"]))
        node.texts.append(("input", _pretty(event["input"])))
        self._tools[event["call_id"]] = self.calls[event["call_id"]] = node

    def tool_end(self, event: Event) -> None:
        node = self._tools.pop(event["call_id"], None)
        if node is None:
            node = self._add(Node("tool", str(event["tool_name"]), event["ts"]))
        else:
            node.ms = round((event["ts"] - node.at) * 1000)
        node.is_bad = bool(event.get("is_error"))
        if event.get("cancelled"):
            node.facts.append("never started")
        node.texts.append(("result", str(event.get("output", ""))))

    def permission_request(self, event: Event) -> None:
        node = self._add(Node("permission", f"{event['request_id']}: {event.get('tool_name')}", event["ts"]))
        node.texts.append(("asked", _pretty(_said(event))))
        self._asked[event["request_id"]] = node

    def permission_resolved(self, event: Event) -> None:
        node = self._asked.pop(event["request_id"], None)
        if node is not None:
            node.ms = round((event["ts"] - node.at) * 1000)
            node.facts.append(" ".join(str(part) for part in (event["resolution"], event.get("answered_by")) if part))

    # --- compaction ---

    def compaction_start(self, event: Event) -> None:
        self._compaction = self._add(Node("compaction", str(event["trigger"]), event["ts"]))

    def compacted(self, event: Event) -> None:
        node = self._compaction or self._add(Node("compaction", "compaction", event["ts"]))
        node.ms = round((event["ts"] - node.at) * 1000)
        node.facts.append(f"{event['before_tokens']} to {event['after_tokens']} tokens")
        node.is_bad = not event["ok"]
        node.texts.append(("summary", event.get("summary", "")))


_TAKES: Mapping[str, Callable[[_Track, Event], None]] = {
    take.__name__: take
    for take in (
        _Track.user_message,
        _Track.model_start,
        _Track.model_end,
        _Track.usage,
        _Track.assistant_message,
        _Track.tool_start,
        _Track.tool_end,
        _Track.permission_request,
        _Track.permission_resolved,
        _Track.compaction_start,
        _Track.compacted,
        _Track.notice,
        _Track.error,
        _Track.done,
    )
}
"""By the type of the event."""


def tell(lines: Iterable[bytes], requests: Iterable[Line]) -> list[Node]:
    """The story of encoded events and of what was sent meanwhile."""
    story = Story(requests)
    for line in lines:
        event = from_json(line)
        if "seq" in event:  # a record of the server's own has none
            story.take(event)
    return story.nodes


def _said(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("type", "seq", "session", "ts", "turn")}


def _short(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 2 * _SHORT_CHARS].split())
    return line if len(line) <= _SHORT_CHARS else f"{line[:_SHORT_CHARS]}…"


def _money(event: Event) -> list[str]:
    cost = event.get("cost_usd")
    return [] if cost is None else [f"${cost:.4f}"]


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
