"""The sessions on disk: made, found by name, listed, opened for writing by one owner.

Everything here may block: the App calls it in a worker. Layout: `<data dir>/sessions/<project>/<id>/journal.jsonl`.
"""

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from agentcore.errors import AmbiguousPrefix, JournalDamaged, NotFound, Unprocessable
from agentcore.events import UserMessage
from agentcore.ids import SESSION_ID, new_session_id
from agentcore.ports.clock import Clock
from agentcore.redaction import Redactor
from agentcore.session import HistoryMessage, Settings, Summary
from agentcore.sessions.blobs import BlobStore
from agentcore.sessions.display import display
from agentcore.sessions.entries import meta_of
from agentcore.sessions.export import ExportFormat, export
from agentcore.sessions.fold import History, fold, mended, title_from
from agentcore.sessions.fork import ForkPoint, Move, find_point, fork_lines
from agentcore.sessions.half_made import remove_half_made
from agentcore.sessions.journal import Journal, Tail, damaged
from agentcore.sessions.listing import Listing
from agentcore.sessions.log import STRIDE, JournalLog
from agentcore.sessions.reading import first_line, last_number, place_of, read_after, read_lines, whole_size
from agentcore.sessions.records import Lease, Load, Meta, Repair, encode_record
from agentcore.sessions.segments import FILE_NAME, state_of
from agentcore.validator import repair, sentence

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
        now = round(self._clock.now(), 3)
        session = new_session_id(now)
        directory = self._directory / project_of(cwd) / session
        meta = Meta(session=session, cwd=str(cwd), created=now, settings=settings)
        journal = Journal.create(directory, [encode_record(meta), encode_record(Load(base=0, ts=now))])
        history = History(meta=meta, settings=settings, reserved=STRIDE - 1, modified=now)
        return OpenSession(
            session, directory, JournalLog(session, journal, 0, self._clock), history, BlobStore(directory)
        )

    def open(self, session: str, *, takeover: bool = False) -> OpenSession:
        """Load a session for writing, by its whole id; with `takeover` also one that another process holds.

        Raises: NotFound, Unprocessable, SessionLocked, JournalDamaged, StorageUnavailable.
        """
        directory = self._find(session)
        if not _has_begun(directory):
            raise _unknown(session)
        self._refuse_foreign(directory)
        journal, tail = Journal.open(directory, takeover=takeover)
        repaired = None
        try:
            history = _fold(directory / FILE_NAME, tail)
            if tail.torn:
                repaired = f"The last line of the journal was torn ({len(tail.torn)} bytes); it was set aside."
                journal.append(encode_record(Repair(what=repaired)))
            base = history.next_base
            if tail.is_fresh:
                owner, generation = journal.lease.owner, journal.lease.generation
                journal.append(encode_record(Lease(generation=generation, owner=owner, ts=self._clock.now())))
            journal.append(encode_record(Load(base=base, ts=self._clock.now())))
            if (record := _mend(history)) is not None:
                repaired = " ".join(piece for piece in (repaired, record.what) if piece)
                journal.append(encode_record(record))
            journal.sync()  # reserved for good before the first number is given out
            blobs = BlobStore(directory)
            blobs.sweep()
        except BaseException:
            journal.close()
            raise
        log = JournalLog(session, journal, base, self._clock)
        return OpenSession(session, directory, log, history, blobs, repaired)

    def fork(
        self, session: str, size: int | None, at: str | int | None, given: Mapping[str, Any]
    ) -> tuple[OpenSession, UserMessage | None]:
        """Begin a session with the history of another up to `at`, read up to byte `size` of its journal; `given` are
        settings that differ. Returns it with the prompt that it is just before, where it is before one.

        Raises: BadRequest where no run begins or ends at `at`; NotFound, Unprocessable, JournalDamaged,
        StorageUnavailable.
        """
        directory = self._find(session)
        self._refuse_foreign(directory)
        path = directory / FILE_NAME
        # read once: what is found, checked and copied are the same lines, whatever becomes of the files meanwhile
        with _reading():
            lines = tuple(read_lines(path, whole_size(path) if size is None else size))
        original = fold(lines)
        point, now = find_point(lines, at), round(self._clock.now(), 3)
        meta = Meta(
            session=new_session_id(now),
            cwd=original.meta.cwd,
            created=now,
            settings=_settings_of_fork(original.settings, point, given),
            fork_of=session,
            fork_at=point.seq,
        )
        new, blobs = directory.parent / meta.session, BlobStore(directory.parent / meta.session)
        copied = partial(fork_lines, meta, lines, point, Move(directory, new))
        history = fold(copied())  # first: what cannot be loaded is not begun
        mending = _mend(history)
        added = [] if mending is None else [encode_record(mending)]
        journal = Journal.create(new, chain(copied(), added), lambda: blobs.adopt(BlobStore(directory)))
        log = JournalLog(meta.session, journal, history.reserved + 1 - STRIDE, self._clock)
        repaired = None if mending is None else mending.what
        return OpenSession(meta.session, new, log, history, blobs, repaired), point.message

    def sweep(self) -> None:
        """Remove what creations left behind that were killed half way; one that is going on is young."""
        for project in self._projects():
            for directory in _inside(project):
                with suppress(OSError):  # it cannot be looked at, or another server is just removing it
                    self._sweep_one(directory)

    def _sweep_one(self, directory: Path) -> None:
        """Raises: OSError."""
        status = directory.lstat()
        is_old = self._clock.now() - status.st_mtime > HALF_MADE_S
        if SESSION_ID.fullmatch(directory.name) and stat.S_ISDIR(status.st_mode) and is_old:
            remove_half_made(directory)

    def directories(self) -> list[Path]:
        """Of all sessions."""
        return list(self._directories())

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
        folders = (path for project in self._projects() for path in _inside(project) if SESSION_ID.fullmatch(path.name))
        return self._listing.summaries(path / FILE_NAME for path in folders)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Ids of the sessions that are not in the last `summaries` because they cannot be read."""
        return self._listing.unreadable

    def display(
        self, session: str, size: int | None, after_seq: int, limit: int | None
    ) -> tuple[list[HistoryMessage], int]:
        """The messages of a session up to byte `size` of its journal, loaded or not; and the last number in it.

        Raises: NotFound, JournalDamaged.
        """
        path = self._find(session) / FILE_NAME
        with _reading():
            meta_of(first_line(path) or b"")
            end = whole_size(path) if size is None else size
            return display(read_lines(path, end), after_seq=after_seq, limit=limit), last_number(path, end)

    def export(self, session: str, size: int | None, form: ExportFormat, redactor: Redactor) -> Iterator[bytes]:
        """A session as a file, loaded or not, up to byte `size` of its journal; its pieces are made as they are taken.

        Raises: NotFound, JournalDamaged.
        """
        path = self._find(session) / FILE_NAME
        with _reading():
            lines = partial(read_lines, path, whole_size(path) if size is None else size)
            history = fold(lines())  # first: what is damaged says so before anything is sent
        summary = Summary(
            id=session,
            title=history.settings.title,
            cwd=history.meta.cwd,
            created=history.meta.created,
            modified=history.modified,
            fork_of=history.meta.fork_of,
        )
        return export(form, summary, lines(), redactor)

    def blob(self, session: str, blob: str) -> bytes:
        """The bytes of an image or document of a session, loaded or not. Raises: NotFound, KeyError."""
        return BlobStore(self._find(session)).get(blob)

    def lines_after(self, session: str, seq: int, before: int) -> list[bytes]:
        """The next durable events behind number `seq` and below `before`, as encoded lines; see `read_after`.

        Raises: NotFound, JournalDamaged.
        """
        with _reading():
            return read_after(self._find(session) / FILE_NAME, seq, before)

    def cwd_of(self, session: str) -> Path:
        """The work folder of a session. Raises: NotFound, JournalDamaged."""
        with _reading():
            return Path(meta_of(first_line(self._find(session) / FILE_NAME) or b"").cwd)

    def directory_of(self, session: str) -> Path:
        """Where a session lies, by its whole id. Raises: NotFound."""
        return self._find(session)

    def _find(self, session: str) -> Path:
        """The directory behind a whole id. Raises: NotFound."""
        known = self._found.get(session)
        if known is not None and _is_file(known / FILE_NAME):
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

    def _refuse_foreign(self, directory: Path) -> None:
        """Raises: Unprocessable for a session of a folder that this server may not work in."""
        if not self._is_ours(directory):
            raise Unprocessable(
                "The session's folder is outside this server's roots. Use the server of that folder, or --root."
            )

    def _is_ours(self, directory: Path) -> bool:
        """Whether its folder is below a root; a journal whose beginning cannot be read says so when it is opened."""
        try:
            line = first_line(directory / FILE_NAME)
            if line is None:
                return False
            cwd = Path(Meta.model_validate_json(line, extra="ignore").cwd)
        except (OSError, ValueError):
            return True
        return any(cwd.is_relative_to(root) for root in self._roots)

    def _directories(self) -> Iterator[Path]:
        for project in self._projects():
            yield from _sessions_in(project)

    def _projects(self) -> list[Path]:
        return _inside(self._directory)


def _fold(path: Path, tail: Tail) -> History:
    """Raises: JournalDamaged, which names the file as well where there are several."""
    try:
        with _reading():
            return fold(read_lines(path, tail.size))
    except JournalDamaged as error:
        if error.line is None or not tail.start:
            raise
        raise damaged(error.line, place_of(path, error.line)) from error


def _mend(history: History) -> Repair | None:
    """Make the transcript one that every vendor takes; the record that says how, None when there was nothing to do."""
    repaired = repair(history.transcript.messages, may_be_open=history.may_have_open_calls)
    found = history.findings + repaired.findings
    if not found:
        return None
    mended(history, repaired.messages)
    return Repair(what=sentence(found), messages=repaired.messages)


def project_of(cwd: Path) -> str:
    """A readable, unique folder name for a work folder."""
    name = "".join(char if char.isalnum() or char in "-_." else "-" for char in cwd.name)[:40] or "root"
    return f"{name}-{hashlib.sha256(str(cwd).encode(errors='surrogateescape')).hexdigest()[:10]}"


def _settings_of_fork(settings: Settings, point: ForkPoint, given: Mapping[str, Any]) -> Settings:
    """Those of the moment, not of the point: an older mode may allow more. The title of a prompt that is taken back
    goes with it."""
    if point.message is not None and settings.title == title_from(point.message.typed_text):
        settings = settings.model_copy(update={"title": None})
    return settings.with_given(given)


@contextmanager
def _reading() -> Iterator[None]:
    """Raises: JournalDamaged for any OSError of what is within."""
    try:
        yield
    except OSError as error:
        raise JournalDamaged(f"The session's journal cannot be read: {error.strerror}.") from error


def _sessions_in(project: Path) -> Iterator[Path]:
    """Those that can be looked at: one that cannot hides no other."""
    return (path for path in _inside(project) if SESSION_ID.fullmatch(path.name) and _is_file(path / FILE_NAME))


def _inside(folder: Path) -> list[Path]:
    """What is in a folder; nothing where it is none or cannot be looked into."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _has_begun(directory: Path) -> bool:
    """Whether it is a session: what a cut creation left is none. One that cannot be read is one, and says so then."""
    try:
        if not directory.is_dir():
            return False
    except OSError:
        return False
    try:
        return first_line(directory / FILE_NAME) is not None
    except OSError:
        return True


def _modified_ns(directory: Path) -> int:
    try:
        return state_of(directory / FILE_NAME).modified_ns
    except (OSError, JournalDamaged):
        return 0


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no session {name[:80]!r}. GET /v1/sessions lists them.")
