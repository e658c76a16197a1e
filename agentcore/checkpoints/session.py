"""The checkpoints of one session: asked by its tools around every change, and by its agent to undo a run.

Satisfies the Checkpoints port. Safe for threads. What a run changed is written below the session's folder as it goes
(`run` tells in which order); a run that changes nothing leaves nothing there.
"""

import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from agentcore.checkpoints.git import Deadline, Git, NotCovered, find_git
from agentcore.checkpoints.looks import Changed, Look, Looker
from agentcore.checkpoints.manifest import Manifest
from agentcore.checkpoints.repository import KnownRepository, place_of
from agentcore.checkpoints.run import RunCheckpoint
from agentcore.checkpoints.undo import Undo
from agentcore.checkpoints.vault import Unreadable, Vault
from agentcore.errors import Unprocessable
from agentcore.events import Notice, Undone
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Coverage, FileChange
from agentcore.ports.clock import Clock
from agentcore.ports.tools import ToolError

FOLDER_NAME = "checkpoints"
LOOK_S = 2.0
"""What looking at a repository may take, before a command and after it."""
NO_WORK_TREE = "the work folder is not in a git work tree"
NO_GIT = "there is no program git"
UNDONE_MEANWHILE = "it was undone while the command ran, which changed it again"
UNREADABLE = (
    "The checkpoint of the last run that changed files cannot be read, so nothing was undone. Where a newer server"
    " wrote it, use that one; else remove checkpoints/{} from the session's folder to undo the run before."
)


@dataclass(frozen=True, slots=True)
class Undoing:
    """An undo that was made, or would be."""

    number: int
    """Of the run's checkpoint, for `retire`."""
    event: Undone
    is_final: bool
    """Nothing is left that another try could take back."""


class SessionCheckpoints:
    def __init__(self, session_directory: Path, workspace: Workspace, environ: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._directory = session_directory
        self._workspace = workspace
        self._environ = environ
        self._vault = Vault(session_directory / FOLDER_NAME)
        self._lock = threading.Lock()
        self._run = RunCheckpoint("none", self._vault, self._clock)
        self._repository = KnownRepository()
        self._looks: list[Look] = []
        """Those of commands that run."""
        self._undone: set[str] = set()
        """Runs that were taken back and whose checkpoints could not be removed."""
        self._withheld: dict[int, Manifest | None] = {}
        """By the number of the run that was looked at last for an undo: what stays of it, contents not put back."""
        self._told: set[str] = set()
        """Why commands were not covered, as far as people know."""

    # --- while a run goes on ---

    def begin_run(self, run: str) -> None:
        self._run = RunCheckpoint(run, self._vault, self._clock)

    @contextmanager
    def changing(self, change: FileChange) -> Iterator[None]:
        with self._lock, ExitStack() as stack:
            try:
                stack.enter_context(self._run.changing(change))
            except OSError as error:
                raise _not_kept("not written", error) from error
            yield

    @asynccontextmanager
    async def around_command(self) -> AsyncIterator[Coverage]:
        coverage, looker, deadline = Coverage(), self._looker(), Deadline(LOOK_S)
        try:
            look = await to_thread.run_sync(self._before, looker, coverage, deadline, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            deadline.stop()
            raise
        try:
            yield coverage
        finally:
            with anyio.CancelScope(shield=True):  # what a cancelled command did can be undone too; bounded by LOOK_S
                await to_thread.run_sync(self._after, looker, look, coverage)

    # --- undo ---

    def undo(self) -> Undoing | None:
        """Take back the last run that changed files; None when there is none. Blocking; for an idle session.

        The next call finds the same run until `retire` is told.
        """
        return self._undo(is_dry=False)

    def preview(self) -> Undoing | None:
        """What `undo` would do now. Blocking."""
        return self._undo(is_dry=True)

    def _undo(self, *, is_dry: bool) -> Undoing | None:
        with self._lock:
            for number in reversed(self._vault.numbers()):
                manifest = self._read(number)
                if manifest is not None and not manifest.is_nothing and manifest.run not in self._undone:
                    report = Undo(self._vault, self._workspace).of(manifest, is_dry=is_dry)
                    self._withheld = {number: report.left_of(manifest)}
                    for look in () if is_dry else self._looks:
                        look.undone.update(report.left)
                    return Undoing(number, report.event(), report.is_final)
        return None

    def _read(self, number: int) -> Manifest | None:
        """A manifest, None where it is gone. Raises: Unprocessable where it cannot be read."""
        try:
            return self._vault.read(number)
        except Unreadable as error:
            raise Unprocessable(UNREADABLE.format(error)) from error

    def retire(self, number: int) -> None:
        """Forget a run that was undone, and later ones that changed nothing: next comes the one before it. Blocking.

        Contents that could not be put back are kept. Raises: OSError where it cannot be removed; it is passed over all
        the same.
        """
        with self._lock:
            self._run = RunCheckpoint("none", self._vault, self._clock)
            later = [other for other in self._vault.numbers() if other > number and self._is_needless(other)]
            try:
                for other in (number, *later):
                    self._remove(other)
            except OSError:
                self._undone.update(left.run for other in (number, *later) if (left := self._find(other)) is not None)
                raise

    def _remove(self, number: int) -> None:
        withheld = self._withheld.get(number)
        if withheld is None:
            self._vault.remove(number)
        else:
            self._vault.reduce(number, withheld)

    def _is_needless(self, number: int) -> bool:
        manifest = self._find(number)
        return manifest is not None and manifest.is_needless

    def _find(self, number: int) -> Manifest | None:
        """A manifest, None where it is gone or cannot be read."""
        try:
            return self._vault.read(number)
        except Unreadable:
            return None

    def prune(self) -> None:
        """Forget what is too old; before the first run. Blocking."""
        with self._lock:
            self._vault.prune(self._clock.now())

    # --- commands ---

    def _looker(self) -> Looker:
        cwd, roots = self._workspace.cwd, self._workspace.roots
        git: Git | str = NO_WORK_TREE
        if place_of(cwd) is not None:
            binary = find_git(self._environ.get("PATH", ""), roots)
            git = NO_GIT if binary is None else Git(binary, cwd, self._environ, self._repository)
        return Looker(self._workspace, git, self._directory)

    def _before(self, looker: Looker, coverage: Coverage, deadline: Deadline) -> Look:
        with self._lock:
            watched = self._run.paths
            try:
                look = looker.before(watched, deadline)
            except OSError as error:
                raise _not_kept("not run", error) from error
            self._looks.append(look)
        if look.why_not is not None:
            self._tell(look.why_not, coverage)
        return look

    def _after(self, looker: Looker, look: Look, coverage: Coverage) -> None:
        """Write down what the command did; it did it, so what fails here is only told."""
        with self._lock, look.kept:
            self._looks = [other for other in self._looks if other is not look]
            try:
                self._run.changed(_made_by_it(look, looker.after(look, Deadline(LOOK_S))))
            except NotCovered as reason:
                self._tell(str(reason), coverage)
            except OSError as error:
                self._tell(f"what files held could not be kept: {error.strerror}", coverage)

    def _tell(self, reason: str, coverage: Coverage) -> None:
        if reason not in self._told:
            self._told.add(reason)
            text = f"Undo does not cover what this command changes: {reason}. The file tools are covered."
            coverage.notices.append(Notice(level="info", code="command_not_covered", text=text))


def _made_by_it(look: Look, changes: Iterable[Changed]) -> Iterator[Changed]:
    """Of what changed while a command ran, what no undo did; what both changed cannot be taken back."""
    for change in changes:
        if change.path not in look.undone:
            yield change
        elif not look.is_undo(change):
            yield Changed(change.path, why_not=UNDONE_MEANWHILE)


def prune_all(directories: Iterable[Path], now: float) -> None:
    """Forget what is too old in all sessions, loaded or not, here or in another process. Blocking."""
    for directory in directories:
        Vault(directory / FOLDER_NAME).prune(now)


def _not_kept(what: str, error: OSError) -> ToolError:
    reason = error.strerror or type(error).__name__
    return ToolError(f"{what}: what is there now could not be kept for an undo ({reason})")
