"""macOS: Seatbelt, by the program `sandbox-exec`. The profile is a text made here; nothing of it was run on Linux.

What bubblewrap does with mounts is said with rules on paths, of which the last that matches counts. There is no private
/tmp, so the temporary folder of the user's is writable; and no namespace of processes, so signals are held to the
sandbox's own.
"""

import os
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from agentcore.ports.sandbox import Boxed, SandboxProfile
from agentcore.sandbox.mounts import Places
from agentcore.sandbox.probed import Probed
from agentcore.sandbox.setting_aside import set_aside

PROGRAM = "/usr/bin/sandbox-exec"
PROBE_TIMEOUT_S = 10.0
SET_ASIDE_S = 5.0
_ALWAYS = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read mach-lookup ipc-posix* file-ioctl pseudo-tty)
(allow file-read*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))"""
_NETWORK = "(allow network*)"


class Seatbelt(Probed):
    """Satisfies the Sandbox port."""

    kind = "seatbelt"

    @asynccontextmanager
    async def around(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], profile: SandboxProfile
    ) -> AsyncIterator[Boxed]:
        """Raises: OSError."""
        found = await to_thread.run_sync(self._look, profile, cwd)
        temporary = await to_thread.run_sync(Path(environ.get("TMPDIR", "/tmp")).resolve)  # noqa: S108 - none is private
        text = written(found.places, temporary, has_network=profile.has_network)
        boxed = Boxed((PROGRAM, "-p", text, *argv), environ)
        try:
            yield boxed
        finally:
            with anyio.move_on_after(SET_ASIDE_S, shield=True):
                boxed.remarks += await to_thread.run_sync(set_aside, found.watched)

    def _try(self) -> str | None:
        if not os.access(PROGRAM, os.X_OK):
            return "sandbox-exec is not there, which confines commands on macOS."
        text = written(Places(()), Path("/private/tmp"), has_network=False)
        try:
            done = subprocess.run(
                [PROGRAM, "-p", text, "/bin/sh", "-c", ":"], capture_output=True, env={}, timeout=PROBE_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired):
            return "sandbox-exec does not work here."
        return None if done.returncode == 0 else "sandbox-exec does not work here."


def written(places: Places, temporary: Path, *, has_network: bool) -> str:
    """The profile as a text of Seatbelt's language. Pure."""
    lines = [_ALWAYS]
    writable = (temporary,) if places.is_read_only else (*places.writable, temporary)
    lines.append(f"(allow file-write*{_below(writable)})")
    lines += _rule("deny file-write*", _below(places.protected))
    lines += _rule("allow file-write*", _below(_inside_of(writable, places.protected)))
    lines += _rule("deny file-write*", _below(_inside_of(places.protected, _inside_of(writable, places.protected))))
    hidden = (*places.hidden_folders, *places.hidden_files)
    held = (*places.protected, *hidden)
    above = {parent for path in held for parent in path.parents if _is_inside(parent, places.writable)}
    lines += _rule("deny file-write-unlink", "".join(f" (literal {_quoted(path)})" for path in sorted(above)))
    lines += _rule("deny file-read* file-write*", _below(hidden))
    lines += _rule("allow file-read*", _below(places.readable))
    if has_network:
        lines.append(_NETWORK)
    return "\n".join(lines) + "\n"


def _rule(verb: str, filters: str) -> Iterator[str]:
    if filters:
        yield f"({verb}{filters})"


def _below(paths: Iterable[Path]) -> str:
    return "".join(f" (subpath {_quoted(path)})" for path in paths)


def _is_inside(path: Path, roots: Iterable[Path]) -> bool:
    return any(path != root and path.is_relative_to(root) for root in roots)


def _inside_of(paths: Iterable[Path], folders: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(path for path in paths if _is_inside(path, folders))


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
