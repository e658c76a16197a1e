"""Git worktrees for subagents that work apart: made from the last commit, removed again unless something changed.

They lie in `.claude/worktrees` of the project, where the main agent can look into them, and git ignores that folder.
Nothing of the repository runs: hooks, monitors and transports are off, and filters are emptied, so that a file whose
stored form differs (LFS) is there as it is stored. Blocking, and safe for threads.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentcore.checkpoints.git import find_git
from agentcore.checkpoints.repository import NAMES, filters_in, place_of
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import PATH_TOOLS, Rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolError
from agentcore.within import top_of

FOLDER = Path(".claude/worktrees")
GIT_S = 60.0
"""For one step; the checkout of a large repository takes some seconds."""
_IGNORE = "*\n"
_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
}


@dataclass(frozen=True, slots=True)
class Worktree:
    folder: Path
    """Its top, resolved."""
    source: Path
    """The top of the work tree that it was made from."""
    commit: str
    """That it was made from."""
    workspace: Workspace
    """Of who works in it."""
    shown: str
    """Its path, relative to the session's folder."""


class Worktrees:
    """Of one session."""

    def __init__(self, workspace: Workspace, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._path = environ.get("PATH", "")
        self._environ = {
            **{name: environ[name] for name in ("PATH", "HOME") if name in environ},
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        self._lock = threading.Lock()

    def make(self, name: str) -> Worktree:
        """Make one under a name that was never used. Raises: ToolError."""
        cwd, roots = self._workspace.cwd, self._workspace.roots
        binary = find_git(self._path, roots)
        if binary is None:
            raise ToolError("isolation is not possible: there is no program git.")
        if place_of(cwd) is None:
            raise ToolError("isolation is not possible: the work folder is in no git repository.")
        with self._lock:
            source = Path(self._git(binary, cwd, "rev-parse", "--show-toplevel")).resolve()
            commit = self._git(binary, cwd, "rev-parse", "--verify", "HEAD")
            top = top_of(cwd, roots)
            folder = _made(top) / name
            self._git(binary, cwd, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        return Worktree(folder, source, commit, self._inside(folder, source), os.path.relpath(folder, cwd))

    def leave(self, worktree: Worktree) -> str | None:
        """Remove one, unless something was changed in it: then a sentence says where it is."""
        try:
            binary = find_git(self._path, self._workspace.roots) or "git"
            changes = self._git(binary, worktree.folder, "status", "--porcelain", "-uall", "--ignore-submodules=all")
            is_same = not changes and self._git(binary, worktree.folder, "rev-parse", "HEAD") == worktree.commit
            if is_same:
                with self._lock:
                    remove = ("worktree", "remove", "--force", str(worktree.folder))
                    self._git(binary, self._workspace.cwd, *remove)
                    _remove_empty(worktree.folder.parent)
                return None
        except ToolError as error:
            return f"It worked in the git worktree {worktree.shown}, which may not be as it left it: {error}"
        count = len(changes.splitlines())
        return (
            f"Its work is in the git worktree {worktree.shown} ({count} changed files that are not committed), which"
            f" was made from {worktree.commit[:12]}. Nothing of it is in the project yet."
        )

    def sweep(self, prefix: str) -> tuple[str, ...]:
        """Remove those of a process that is no more in which nothing was changed; the paths of the others, relative to
        the session's folder. `prefix` is what the names of a session's begin with."""
        folder, kept = top_of(self._workspace.cwd, self._workspace.roots) / FOLDER, list[str]()
        names = sorted(path.name for path in folder.glob(f"{prefix}*")) if folder.is_dir() else []
        binary = find_git(self._path, self._workspace.roots) if names else None
        for name in names if binary is not None else ():
            shown = os.path.relpath(folder / name, self._workspace.cwd)
            with suppress(ToolError):  # git knows nothing of it: it is left alone
                commit = self._elsewhere(binary or "", folder / name)
                if self.leave(Worktree(folder / name, folder, commit, self._workspace, shown)) is not None:
                    kept.append(shown)
        return tuple(kept)

    def _elsewhere(self, binary: str, folder: Path) -> str:
        """The commit of a worktree, where it is not its own: then nothing is lost with it. Raises: ToolError."""
        commit = self._git(binary, folder, "rev-parse", "--verify", "HEAD")
        is_known = self._git(binary, folder, "for-each-ref", "--count=1", "--contains", commit)
        is_main = commit == self._git(binary, self._workspace.cwd, "rev-parse", "--verify", "HEAD")
        return commit if is_known or is_main else ""

    def _inside(self, folder: Path, source: Path) -> Workspace:
        """The session's workspace, moved there. What rules forbid in the project they forbid there as well."""
        given = self._workspace
        inner = given.cwd.relative_to(source) if given.cwd.is_relative_to(source) else Path()
        deny = (*given.deny, *moved(Rulebook(deny=given.deny), source, folder, given.home).deny)
        scripts = frozenset(folder / one.relative_to(source) for one in given.scripts if one.is_relative_to(source))
        return replace(given, cwd=folder / inner, roots=(folder,), deny=deny, scripts=given.scripts | scripts)

    def _git(self, binary: str, folder: Path, *arguments: str) -> str:
        """Raises: ToolError."""
        names = self._run(binary, folder, _OVERRIDES, *NAMES).encode(errors="surrogateescape").split(b"\0")
        emptied = {name: "false" if name.endswith(".required") else "" for name in filters_in(names)}
        return self._run(binary, folder, {**_OVERRIDES, **emptied}, *arguments).strip("\n")

    def _run(self, binary: str, folder: Path, config: Mapping[str, str], *arguments: str) -> str:
        environ = {**self._environ, "GIT_CONFIG_COUNT": str(len(config))}
        for number, (key, value) in enumerate(config.items()):
            environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        try:
            with subprocess.Popen(
                [binary, "--no-pager", *arguments],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    out, _ = process.communicate(timeout=GIT_S)
                except subprocess.TimeoutExpired:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
                    raise ToolError("git did not come to an end in time.") from None
        except OSError:
            raise ToolError("git cannot be started.") from None
        if process.returncode != 0:
            raise ToolError(f"git {arguments[0]} failed: is there a commit in this repository?")
        return os.fsdecode(out)


def _made(top: Path) -> Path:
    """The folder of all worktrees. Raises: ToolError where it would lie elsewhere."""
    folder = top / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() != folder:
            raise ToolError(f"isolation is not possible: {FOLDER} leads elsewhere.")
        with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
            file.write(_IGNORE)
    except OSError as error:
        raise ToolError(f"isolation is not possible: {FOLDER} cannot be made ({error.strerror}).") from error
    return folder


def _remove_empty(folder: Path) -> None:
    """Leave no trace where nothing is left."""
    with suppress(OSError):
        if [entry.name for entry in folder.iterdir()] == [".gitignore"]:
            (folder / ".gitignore").unlink()
            folder.rmdir()
            folder.parent.rmdir()


def moved(rules: Rulebook, source: Path, folder: Path, home: Path) -> Rulebook:
    """What deny and ask rules say about places below `source`, said about those below `folder`. What is meant from the
    working folder holds there anyway."""

    def there(group: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(rule for one in group if (rule := _moved(one, source, folder, home)) is not None)

    return Rulebook(ask=there(rules.ask), deny=there(rules.deny))


def _moved(rule: Rule, source: Path, folder: Path, home: Path) -> Rule | None:
    spec, base = rule.spec, rule.origin.base
    if rule.tool not in PATH_TOOLS or spec is None:
        return None
    if spec.startswith("~/"):
        spec = f"/{_prefix(home)}{spec[1:]}"
    elif spec.startswith("/") and not spec.startswith("//") and base is not None:
        if base.is_relative_to(source):
            return replace(rule, origin=replace(rule.origin, base=folder / base.relative_to(source)))
        spec = f"/{_prefix(base)}{spec}"
    if not spec.startswith(f"/{source}/"):
        return None
    return replace(rule, spec=f"/{folder}{spec.removeprefix(f'/{source}')}")


def _prefix(folder: Path) -> str:
    """What stands before the slash of a path below a folder."""
    return str(folder).rstrip("/")
