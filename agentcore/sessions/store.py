"""The sessions on disk: made, found by name, listed, opened for writing by one owner.

Everything here may block: the App calls it in a worker. Layout: `<data dir>/sessions/<project>/<id>/journal.jsonl`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.errors import AmbiguousPrefix, NotFound, Unprocessable
from agentcore.ids import SESSION_ID, new_session_id
from agentcore.ports import Clock
from agentcore.session import HistoryMessage, Settings, Summary
from agentcore.sessions.blobs import BlobStore
from agentcore.sessions.display import display
from agentcore.sessions.fold import History, fold
from agentcore.sessions.journal import FILE_NAME, Journal, remove_unowned
from agentcore.sessions.listing import Listing
from agentcore.sessions.log import STRIDE, JournalLog
from agentcore.sessions.reading import first_line, last_number, read_after, read_lines, whole_size
from agentcore.sessions.records import Load, Meta, Repair, encode_record

LATEST = "latest"
HALF_MADE_S = 60.0  # a session is made in milliseconds


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that this process owns, with what its journal says."""

    id: str
    directory: Path
    log: JournalLog
    history: History
    blobs: BlobStore
    repaired: str | None = None
    """What was mended while loading, for a notice."""


class SessionStore:
    def __init__(self, directory: Path, roots: tuple[Path, ...], clock: Clock) -> None:
        """Only sessions whose folder lies below one of the `roots` are opened, or meant by `latest`."""
        self._directory = directory
        self._roots = roots
        self._clock = clock
        self._listing = Listing()
        self._found: dict[str, Path] = {}
        """Where sessions were found: a session never moves, but it may be gone."""

    def create(self, cwd: Path, settings: Settings) -> OpenSession:
        """Make a new session. Raises: StorageUnavailable."""
        now = self._clock.now()
        session = new_session_id(now)
        directory = self._directory / project_of(cwd) / session
        meta = Meta(session=session, cwd=str(cwd), created=now, settings=settings)
        journal = Journal.create(directory, [encode_record(meta), encode_record(Load(base=0, ts=now))])
        history = History(meta=meta, settings=settings, reserved=STRIDE - 1, modified=now)
        return OpenSession(
            session, directory, JournalLog(session, journal, 0, self._clock), history, BlobStore(directory)
        )

    def open(self, session: str) -> OpenSession:
        """Load a session for writing, by its whole id.

        Raises: NotFound, Unprocessable, SessionLocked, JournalDamaged, StorageUnavailable.
        """
        directory = self._find(session)
        if not _has_begun(directory):
            raise _unknown(session)
        if not self._is_ours(directory):
            raise Unprocessable(
                "The session's folder is outside this server's roots. Use the server of that folder, or --root."
            )
        journal, tail = Journal.open(directory)
        repaired = None
        try:
            history = fold(read_lines(directory / FILE_NAME, tail.size))
            if tail.torn:
                repaired = f"The last line of the journal was torn ({len(tail.torn)} bytes); it was set aside."
                journal.append(encode_record(Repair(what=repaired)))
            base = history.next_base
            journal.append(encode_record(Load(base=base, ts=self._clock.now())))
            journal.sync()  # reserved for good before the first number is given out
            blobs = BlobStore(directory)
            blobs.sweep()
        except BaseException:
            journal.close()
            raise
        log = JournalLog(session, journal, base, self._clock)
        return OpenSession(session, directory, log, history, blobs, repaired)

    def sweep(self) -> None:
        """Remove what creations left behind that were killed half way; one that is going on is young."""
        for project in self._projects():
            for directory in project.iterdir() if project.is_dir() else ():
                if not SESSION_ID.fullmatch(directory.name) or (directory / FILE_NAME).exists():
                    continue
                if self._clock.now() - directory.stat().st_mtime > HALF_MADE_S:
                    remove_unowned(directory)

    def resolve(self, name: str) -> str:
        """The id behind a whole id, a unique prefix or `latest`. Raises: NotFound, AmbiguousPrefix."""
        if name == LATEST:
            newest = self._newest(self._directories())
            if newest is None:
                raise NotFound("There is no session of this server's folders yet. Create one with POST /v1/sessions.")
            return newest.name
        if SESSION_ID.fullmatch(name):
            return self._find(name).name
        directories = [path for path in self._directories() if name and path.name.startswith(name)]
        matches = sorted(path.name for path in directories if _has_begun(path))
        if not matches:
            raise _unknown(name)
        if len(matches) > 1:
            raise AmbiguousPrefix(f"{len(matches)} sessions begin with {name[:80]!r}: give more of the id.", matches)
        return matches[0]

    def newest_of(self, cwd: Path) -> str | None:
        """The id of the session of this folder that changed last."""
        newest = self._newest(_sessions_in(self._directory / project_of(cwd)))
        return None if newest is None else newest.name

    def summaries(self) -> list[Summary]:
        """All sessions, the one that changed last first."""
        return self._listing.summaries(path / FILE_NAME for path in self._directories())

    def display(
        self, session: str, size: int | None, after_seq: int, limit: int | None
    ) -> tuple[list[HistoryMessage], int]:
        """The messages of a session up to byte `size` of its journal, loaded or not; and the last number in it."""
        path = self._find(session) / FILE_NAME
        end = whole_size(path) if size is None else size
        return display(read_lines(path, end), after_seq=after_seq, limit=limit), last_number(path, end)

    def blob(self, session: str, blob: str) -> bytes:
        """The bytes of an image or document of a session, loaded or not. Raises: NotFound, KeyError."""
        return BlobStore(self._find(session)).get(blob)

    def lines_after(self, session: str, seq: int, before: int) -> list[bytes]:
        """The next durable events behind number `seq` and below `before`, as encoded lines; see `read_after`."""
        return read_after(self._find(session) / FILE_NAME, seq, before)

    def _find(self, session: str) -> Path:
        """The directory behind a whole id. Raises: NotFound."""
        known = self._found.get(session)
        if known is not None and (known / FILE_NAME).is_file():
            return known
        for project in self._projects():
            directory = project / session
            if _has_begun(directory):
                self._found[session] = directory
                return directory
        self._found.pop(session, None)
        raise _unknown(session)

    def _newest(self, directories: Iterable[Path]) -> Path | None:
        """The session that changed last, of those that may be opened here."""
        by_age = sorted(directories, key=_modified_ns, reverse=True)
        return next((path for path in by_age if self._is_ours(path)), None)

    def _is_ours(self, directory: Path) -> bool:
        """Whether its folder is below a root; a journal whose beginning cannot be read says so when it is opened."""
        line = first_line(directory / FILE_NAME)
        if line is None:
            return False
        try:
            cwd = Path(Meta.model_validate_json(line, extra="ignore").cwd)
        except ValueError:
            return True
        return any(cwd.is_relative_to(root) for root in self._roots)

    def _directories(self) -> Iterator[Path]:
        for project in self._projects():
            yield from _sessions_in(project)

    def _projects(self) -> Iterable[Path]:
        return self._directory.iterdir() if self._directory.is_dir() else ()


def project_of(cwd: Path) -> str:
    """A readable, unique folder name for a work folder."""
    name = "".join(char if char.isalnum() or char in "-_." else "-" for char in cwd.name)[:40] or "root"
    return f"{name}-{hashlib.sha256(str(cwd).encode(errors='surrogateescape')).hexdigest()[:10]}"


def _sessions_in(project: Path) -> Iterator[Path]:
    if project.is_dir():
        for path in project.iterdir():
            if SESSION_ID.fullmatch(path.name) and (path / FILE_NAME).is_file():
                yield path


def _has_begun(directory: Path) -> bool:
    """Whether it is a session: what a cut creation left is none."""
    return first_line(directory / FILE_NAME) is not None


def _modified_ns(directory: Path) -> int:
    try:
        return (directory / FILE_NAME).stat().st_mtime_ns
    except OSError:
        return 0


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no session {name[:80]!r}. GET /v1/sessions lists them.")
