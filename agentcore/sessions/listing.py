"""The session list: one summary per session, kept in memory and brought up to date from what was appended.

An index that is rebuilt from the files when it is missing or stale, and never written down. Immutable entries, so
that two workers may list at once. Blocks: call it in a worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from agentcore.errors import JournalDamaged
from agentcore.session import Summary
from agentcore.sessions.fold import title_from
from agentcore.sessions.reading import first_line, read_lines, whole_size
from agentcore.sessions.records import Meta
from agentcore.sessions.segments import State, state_of

_TITLE = b'{"type":"session_updated"'
_PROMPT = b'{"type":"prompt"'


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the first `size` bytes of a journal say, all of them whole lines."""

    identity: int
    size: int
    summary: Summary


class Listing:
    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def summaries(self, journals: Iterable[Path]) -> list[Summary]:
        """One of each journal, the one that changed last first; one that cannot be read is left out."""
        self._seen = {path: seen for path in journals if (seen := self._look(path)) is not None}
        summaries = [seen.summary for seen in self._seen.values()]
        return sorted(summaries, key=lambda summary: (summary.modified, summary.id), reverse=True)

    def _look(self, path: Path) -> _Seen | None:
        try:
            state = state_of(path)
            seen = self._seen.get(path)
            if seen is None or seen.identity != state.identity or seen.size > state.size:
                seen = _begin(path, state)
            is_new = (seen.size, seen.summary.modified) != (state.size, _modified(state))
            return _go_on(path, seen, state) if is_new else seen
        except (OSError, ValueError, JournalDamaged):
            return None


def _begin(path: Path, state: State) -> _Seen:
    """Read the first line. Raises: ValueError when there is none that makes sense."""
    line = first_line(path) or b""
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
    """The last title given, else the first line of the first prompt; what cannot be read changes nothing."""
    for line in lines:
        if line.startswith(_TITLE):
            given = _text(line, "title")
            title = title if given is None else given
        elif title is None and line.startswith(_PROMPT):
            text = _text(line, "text")
            title = None if text is None else title_from(text)
    return title


def _text(line: bytes, name: str) -> str | None:
    try:
        value = from_json(line).get(name)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _modified(state: State) -> float:
    return round(state.modified_ns / 1e9, 3)
