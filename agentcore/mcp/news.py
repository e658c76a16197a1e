"""What has become of the servers of a session since somebody was told last: values, and sentences about differences.

However often a server changes in between, there is one sentence about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentcore.events import Notice
from agentcore.settings.names import shown_name

UNAVAILABLE = "mcp_unavailable"
CHANGED = "mcp_changed"
_SHOWN = 5
"""Names of tools in a sentence; sentences in a notice."""
_HOW = {
    "connecting": "is still starting; its tools come when it is there",
    "lost": "has gone and is being connected again",
    "failed": "cannot be used",
    "needs_login": "cannot be used",
    "stopped": "was stopped",
    "unusable": "cannot be used",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A server at one moment."""

    state: str
    error: str = ""
    tools: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """A sentence for each of its tools and prompts that cannot be used."""


class News:
    """Of one session."""

    def __init__(self) -> None:
        self._told: dict[str, Seen] = {}

    def take(self, seen: Mapping[str, Seen]) -> Sequence[Notice]:
        """The differences to the last time. A server that is there when it is first seen is no news."""
        notices = [*_compared(self._told, seen), *_left_out(self._told, seen)]
        self._told = dict(seen)
        return notices


def _compared(told: Mapping[str, Seen], seen: Mapping[str, Seen]) -> Iterator[Notice]:
    for name, now in seen.items():
        before = told.get(name)
        if before is None and now.state == "ready":
            continue
        if before is not None and (now.state, now.error, now.tools) == (before.state, before.error, before.tools):
            continue
        if now.state != "ready":
            if before is None or now.state != before.state or now.error != before.error:
                why = f": {now.error}" if now.error else "."
                yield Notice(level="warning", code=UNAVAILABLE, text=f"The MCP server {name} {_HOW[now.state]}{why}")
        elif before is not None and before.state != "ready":
            count = len(now.tools)
            text = f"The MCP server {name} is there now, with {count} tool{'' if count == 1 else 's'}."
            yield Notice(level="info", code=CHANGED, text=text)
        else:
            assert before is not None
            yield Notice(
                level="info", code=CHANGED, text=f"The MCP server {name} changed its tools: {_diff(before, now)}."
            )
    for name in told.keys() - seen.keys():
        yield Notice(level="info", code=CHANGED, text=f"The MCP server {name} is no longer used.")


def _left_out(told: Mapping[str, Seen], seen: Mapping[str, Seen]) -> Iterator[Notice]:
    """A notice for each server whose tools cannot all be used, also one that was there before the session."""
    for name, now in seen.items():
        before = told.get(name)
        if now.left_out and (before is None or now.left_out != before.left_out):
            left = len(now.left_out) - _SHOWN
            text = " ".join([*now.left_out[:_SHOWN], *([f"And {left} more."] if left > 0 else [])])
            yield Notice(
                level="warning", code=UNAVAILABLE, text=f"Of the MCP server {name} not all can be used. {text}"
            )


def _diff(before: Seen, now: Seen) -> str:
    more = [f"+{shown_name(one)}" for one in now.tools if one not in set(before.tools)]
    less = [f"-{shown_name(one)}" for one in before.tools if one not in set(now.tools)]
    names = [*more, *less]
    left = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {left} more"] if left > 0 else [])]) or "the same names, described anew"
