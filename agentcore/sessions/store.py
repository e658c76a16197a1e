"""The sessions on disk: made, found by name, listed, opened for writing by one owner.

Everything here may block: the App calls it in a worker. Layout: `<data dir>/sessions/<project>/<id>/journal.jsonl`.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.errors import AmbiguousPrefix, JournalDamaged, NotFound
from agentcore.events import head_of
from agentcore.ids import SESSION_ID, new_session_id
from agentcore.ports import Clock
from agentcore.session import HistoryMessage, Settings, Summary
from agentcore.sessions.display import display
from agentcore.sessions.fold import History, fold, title_from
from agentcore.sessions.journal import FILE_NAME, Journal, read_lines
from agentcore.sessions.log import STRIDE, JournalLog
from agentcore.sessions.records import Load, Meta, Repair, encode_record

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that this process owns, with what its journal says."""

    id: str
    directory: Path
    log: JournalLog
    history: History
    repaired: str | None = None
    """What was mended while loading, for a notice."""


class SessionStore:
    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._summaries: dict[Path, tuple[tuple[int, int], Summary]] = {}

    def create(self, cwd: Path, settings: Settings) -> OpenSession:
        """Make a new session. Raises: StorageUnavailable."""
        now = self._clock.now()
        session = new_session_id(now)
        directory = self._directory / project_of(cwd) / session
        journal = Journal.create(directory)
        meta = Meta(session=session, cwd=str(cwd), created=now, settings=settings)
        journal.append(encode_record(meta))
        journal.append(encode_record(Load(base=0, ts=now)))
        history = History(meta=meta, settings=settings, reserved=STRIDE - 1, modified=now)
        return OpenSession(session, directory, JournalLog(session, journal, 0, self._clock), history)

    def open(self, session: str) -> OpenSession:
        """Load a session for writing, by its whole id.

        Raises: NotFound, SessionLocked, JournalDamaged, StorageUnavailable.
        """
        directory = self._find(session)
        journal, tail = Journal.open(directory)
        repaired = None
        try:
            history = fold(read_lines(directory, tail.size))
            if tail.torn:
                repaired = f"The last line of the journal was torn ({len(tail.torn)} bytes); it was set aside."
                journal.append(encode_record(Repair(what=repaired)))
            base = history.next_base
            journal.append(encode_record(Load(base=base, ts=self._clock.now())))
            journal.sync()  # reserved for good before the first number is given out
        except BaseException:
            journal.close()
            raise
        return OpenSession(session, directory, JournalLog(session, journal, base, self._clock), history, repaired)

    def resolve(self, name: str) -> str:
        """The id behind a whole id, a unique prefix or `latest`. Raises: NotFound, AmbiguousPrefix."""
        if name == LATEST:
            newest = max(self._directories(), key=_modified_ns, default=None)
            if newest is None:
                raise NotFound("There is no session yet. Create one with POST /v1/sessions.")
            return newest.name
        matches = sorted(path.name for path in self._directories() if path.name.startswith(name))
        if name in matches:
            return name
        if not matches or not name:
            raise NotFound(f"There is no session {name[:80]!r}. GET /v1/sessions lists them.")
        if len(matches) > 1:
            raise AmbiguousPrefix(f"{len(matches)} sessions begin with {name[:80]!r}: give more of the id.", matches)
        return matches[0]

    def newest_of(self, cwd: Path) -> str | None:
        """The id of the session of this folder that changed last."""
        project = self._directory / project_of(cwd)
        newest = max(_sessions_in(project), key=_modified_ns, default=None)
        return None if newest is None else newest.name

    def summaries(self) -> list[Summary]:
        """All sessions, the one that changed last first."""
        summaries = [summary for path in self._directories() if (summary := self._summary(path)) is not None]
        return sorted(summaries, key=lambda summary: (summary.modified, summary.id), reverse=True)

    def summary(self, session: str) -> Summary | None:
        return self._summary(self._find(session))

    def display(
        self, session: str, size: int | None, after_seq: int, limit: int | None
    ) -> tuple[list[HistoryMessage], int]:
        """The messages of a session up to byte `size` of its journal, loaded or not; and the last number in it."""
        lines = read_lines(self._find(session), size)
        last_seq = next((head[1] for line in reversed(lines) if (head := head_of(line)) is not None), 0)
        return display(lines, after_seq=after_seq, limit=limit), last_seq

    def lines_after(self, session: str, seq: int, size: int) -> list[bytes]:
        """The durable events behind number `seq`, up to byte `size` of the journal, as encoded lines."""
        lines = read_lines(self._find(session), size)
        return [line for line in lines if (head := head_of(line)) is not None and head[1] > seq]

    def _find(self, session: str) -> Path:
        for path in self._directories():
            if path.name == session:
                return path
        raise NotFound(f"There is no session {session[:80]!r}. GET /v1/sessions lists them.")

    def _directories(self) -> Iterator[Path]:
        if self._directory.is_dir():
            for project in self._directory.iterdir():
                yield from _sessions_in(project)

    def _summary(self, directory: Path) -> Summary | None:
        """Read off the journal, again only when it changed; None for one that cannot be read."""
        path = directory / FILE_NAME
        try:
            stat = path.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            known = self._summaries.get(path)
            if known is None or known[0] != version:
                known = self._summaries[path] = (version, _summarise(path.read_bytes(), stat.st_mtime))
        except (OSError, ValueError, JournalDamaged):
            return None
        return known[1]


def _summarise(data: bytes, modified: float) -> Summary:
    first = data[: data.find(b"\n")]
    meta = Meta.model_validate_json(first, extra="ignore")
    return Summary(
        id=meta.session, title=_title(meta, data), cwd=meta.cwd, created=meta.created, modified=round(modified, 3)
    )


def _title(meta: Meta, data: bytes) -> str | None:
    """The last title given, else the first line of the first prompt; found without parsing the rest."""
    end = len(data)
    while (at := data.rfind(b'\n{"type":"session_updated"', 0, end)) >= 0:
        title = json.loads(data[at + 1 : data.find(b"\n", at + 1)]).get("title")
        if title is not None:
            return str(title)
        end = at
    if meta.settings.title is not None:
        return meta.settings.title
    at = data.find(b'\n{"type":"prompt"')
    return title_from(json.loads(data[at + 1 : data.find(b"\n", at + 1)])["text"]) if at >= 0 else None


def project_of(cwd: Path) -> str:
    """A readable, unique folder name for a work folder."""
    name = "".join(char if char.isalnum() or char in "-_." else "-" for char in cwd.name)[:40] or "root"
    return f"{name}-{hashlib.sha256(str(cwd).encode(errors='surrogateescape')).hexdigest()[:10]}"


def _sessions_in(project: Path) -> Iterator[Path]:
    if project.is_dir():
        for path in project.iterdir():
            if SESSION_ID.fullmatch(path.name) and (path / FILE_NAME).is_file():
                yield path


def _modified_ns(directory: Path) -> int:
    try:
        return (directory / FILE_NAME).stat().st_mtime_ns
    except OSError:
        return 0
