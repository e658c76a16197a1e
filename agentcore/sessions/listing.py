"""The session list: one summary per session, kept in memory and brought up to date from what was appended.

An index that is rebuilt from the files when it is missing or stale, and never written down. Immutable entries, so
that two workers may list at once. Blocks: call it in a worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from agentcore.errors import JournalDamaged
from agentcore.events import EVENTS, UserMessage
from agentcore.session import Summary
from agentcore.sessions.fold import title_from
from agentcore.sessions.reading import first_line, read_lines, whole_size
from agentcore.sessions.records import Meta
from agentcore.sessions.segments import State, state_of

_TITLE = b'{"type":"session_updated"'
_PROMPT = b'{"type":"prompt"'
_UNCHECKED = b',"is_unchecked":true,'
"""Of the record itself: within a text each quote has a backslash before it."""
_SAID = b'{"type":"user_message"'


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the first `size` bytes of a journal say, all of them whole lines."""

    identity: int
    size: int
    summary: Summary


class Listing:
    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}
        self.unreadable: tuple[str, ...] = ()
        """Ids of the sessions that the last listing found and could not read, in order."""

    def summaries(self, journals: Iterable[Path]) -> list[Summary]:
        """One of each journal, the one that changed last first; one that cannot be read is `unreadable` instead."""
        found, unreadable = dict[Path, _Seen](), list[str]()
        for path in journals:
            try:
                if (seen := self._look(path)) is not None:
                    found[path] = seen
            except (OSError, ValueError, JournalDamaged):
                if not _is_none(path):
                    unreadable.append(path.parent.name)
        self._seen, self.unreadable = found, tuple(sorted(unreadable))
        summaries = [seen.summary for seen in found.values()]
        return sorted(summaries, key=lambda summary: (summary.modified, summary.id), reverse=True)

    def _look(self, path: Path) -> _Seen | None:
        """What a journal says; None where its session has not begun. Raises: JournalDamaged, ValueError, OSError."""
        state = state_of(path)
        seen = self._seen.get(path)
        if seen is None or seen.identity != state.identity or seen.size > state.size:
            seen = _begin(path, state)
        if seen is None or (seen.size, seen.summary.modified) == (state.size, _modified(state)):
            return seen
        return _go_on(path, seen, state)


def _is_none(path: Path) -> bool:
    """Whether there is no such file, never or any more."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _begin(path: Path, state: State) -> _Seen | None:
    """Read the first line; None when it is not whole. Raises: ValueError when it makes no sense."""
    line = first_line(path)
    if line is None:
        return None
    meta = Meta.model_validate_json(line, extra="ignore")
    summary = Summary(
        id=meta.session,
        title=meta.settings.title,
        cwd=meta.cwd,
        created=meta.created,
        modified=_modified(state),
        fork_of=meta.fork_of,
    )
    return _Seen(state.identity, len(line) + 1, summary)


def _go_on(path: Path, seen: _Seen, state: State) -> _Seen:
    """Read what was appended since."""
    size = whole_size(path)
    title = _title(read_lines(path, size, seen.size), seen.summary.title)
    changed = {"title": title, "modified": _modified(state)}
    return _Seen(seen.identity, size, seen.summary.model_copy(update=changed))


def _title(lines: Iterable[bytes], title: str | None) -> str | None:
    """The last title given, else the first line of the first prompt that was let through; what cannot be read changes
    nothing."""
    for line in lines:
        if line.startswith(_TITLE):
            given = _text(line, "title")
            title = title if given is None else given
        elif title is None and line.startswith(_PROMPT) and _UNCHECKED not in line:
            text = _text(line, "text")
            title = None if text is None else title_from(text)
        elif title is None and line.startswith(_SAID):
            title = _title_of_message(line)
    return title


def _title_of_message(line: bytes) -> str | None:
    """The title that the fold makes of what a person said, where there is none before."""
    try:
        match EVENTS.validate_json(line, extra="ignore"):
            case UserMessage(agent=None, source="prompt" | "steer", typed_text=text):
                return title_from(text)
    except ValueError:
        pass
    return None


def _text(line: bytes, name: str) -> str | None:
    try:
        value = from_json(line).get(name)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _modified(state: State) -> float:
    return round(state.modified_ns / 1e9, 3)
