"""What a person approved of the things that repositories want to run: hooks and MCP servers, by their content.

An approval holds for one project's folder and one content, the files of the project that a command names included;
whatever is changed waits again. They are kept in
`<config dir>/approvals.json`, private to the user, changed under a lock and replaced in one step. A store that cannot
be read approves nothing.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from agentcore.errors import NotFound, Unprocessable
from agentcore.folders import make_private, read_regular
from agentcore.hooks.handlers import Handler
from agentcore.hooks.reading import handlers_of
from agentcore.origin import Origin
from agentcore.settings.layers import Layer
from agentcore.settings.private import locked, replace_private
from agentcore.settings.scripts import pinned_files
from agentcore.settings.servers import McpServer
from agentcore.settings.sources import Sources, read_shared_layers

FILE_NAME = "approvals.json"
MAX_STORE_BYTES = 16 * 1024 * 1024
ID_CHARS = 16
Kind = Literal["hook", "mcp_server"]
State = Literal["waiting", "allowed", "denied"]

_Key = tuple[str, str]
"""Project folder and digest."""
_Stamp = tuple[int, int, int]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Approval:
    """Something of a repository that runs on a person's word alone, and what was said about it."""

    id: str
    """Made of the project and the content: what has changed has another."""
    kind: Kind
    project: str
    """The folder whose files bring it."""
    sha256: str
    """Of the content, and of the scripts that it names."""
    source: str
    """The file that it stands in."""
    name: str
    content: str
    """All of it, as JSON."""
    state: State = "waiting"
    time: float | None = None
    """Unix time of the decision, in seconds."""
    scripts: tuple[str, ...] = ()
    """Files of the project that it names, from the project's top: their content is approved with it."""
    entry_sha256: str = ""
    """Of the content alone."""

    @property
    def title(self) -> str:
        """A few words about it for people."""
        return f"{'hook' if self.kind == 'hook' else 'MCP server'} {self.name}"

    @property
    def waits(self) -> bool:
        return self.state == "waiting"


class _Decision(BaseModel):
    """One entry of the file."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)

    id: str
    kind: Kind
    project: str
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    source: str
    name: str
    content: str
    state: Literal["allowed", "denied"]
    time: float
    entry_sha256: str = ""
    """Empty in what an earlier version wrote: then nothing but the content was approved."""

    @property
    def entry(self) -> _Key:
        return self.project, self.entry_sha256 or self.sha256


# --- what there is to approve ---


def server_digest(server: McpServer) -> str:
    """Name the content of an MCP server, as it stands in its file; what TOML knows besides JSON counts as its text."""
    written = {"server": server.name, "settings": server.raw}
    return hashlib.sha256(json.dumps(written, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def wanted(layers: Sequence[Layer], cwd: Path) -> Iterator[Approval]:
    """Everything in shared layers around a folder that waits for a person until it is decided about; each content
    once. Blocking: scripts are read."""
    found: dict[str, Approval] = {}
    for layer in layers:
        if layer.origin.is_shared and layer.origin.base is not None:
            for one in (*_hooks_of(layer, cwd), *_servers_of(layer, cwd)):
                found.setdefault(one.id, one)
    yield from found.values()


def hook_to_approve(hook: Handler, cwd: Path) -> Approval:
    """A hook of a repository, as it waits for a person in a folder. Blocking."""
    name = f"{hook.event} ({hook.matcher_text})" if hook.matcher_text else hook.event
    return _waiting("hook", hook.origin, hook.sha256, name, hook.written, cwd)


def look(sources: Sources, cwds: Iterable[Path]) -> list[Approval]:
    """Everything that the repositories around these folders (resolved) want to run."""
    found: dict[str, Approval] = {}
    for cwd in dict.fromkeys(cwds):
        found |= {one.id: one for one in wanted(read_shared_layers(sources, cwd), cwd)}
    return list(found.values())


def _hooks_of(layer: Layer, cwd: Path) -> Iterator[Approval]:
    for hook in handlers_of([layer.hooks] if layer.hooks is not None else []):
        yield hook_to_approve(hook, cwd)


def _servers_of(layer: Layer, cwd: Path) -> Iterator[Approval]:
    for server in layer.mcp_servers:
        yield _waiting("mcp_server", layer.origin, server_digest(server), server.name, server.raw, cwd)


def _waiting(kind: Kind, origin: Origin, digest: str, name: str, content: Mapping[str, Any], cwd: Path) -> Approval:
    base = Path(str(origin.base))
    shown = json.dumps(content, ensure_ascii=False, default=str)
    pinned = pinned_files(content, base, cwd)
    whole = _whole(digest, pinned)
    return Approval(
        id=_id(str(base), whole),
        kind=kind,
        project=str(base),
        sha256=whole,
        source=origin.name,
        name=name,
        content=shown,
        scripts=tuple(pinned),
        entry_sha256=digest,
    )


def _whole(digest: str, pinned: Mapping[str, str]) -> str:
    """Name the content of an entry with that of its scripts."""
    return digest if not pinned else hashlib.sha256(json.dumps([digest, pinned]).encode()).hexdigest()


def _id(project: str, digest: str) -> str:
    return hashlib.sha256(f"{project}\0{digest}".encode(errors="surrogateescape")).hexdigest()[:ID_CHARS]


# --- what was decided ---


class Approvals:
    """The store of one user; what another process decides is seen at once. All methods may touch the disk."""

    def __init__(self, config_dir: Path) -> None:
        self._file = config_dir / FILE_NAME
        self._stamp: _Stamp | None = None
        self._known: dict[_Key, _Decision] = {}

    def is_approved(self, origin: Origin, digest: str, cwd: Path | None = None) -> bool:
        """Whether something of this origin may run in a folder, as it stands and with the scripts that it names as
        they are: what is the user's own may. `digest` is of the entry alone.

        One `stat`, the scripts, and a small file to read when it has changed.
        """
        return not origin.is_shared or self._is_allowed(str(origin.base), digest, cwd)

    def states(self, found: Sequence[Approval]) -> list[Approval]:
        """What was found, with what was decided about it. What was decided about things that are not there any more is
        kept for when they are again, and told of nowhere: nothing of it can run."""
        self._refresh()
        return [self._told(one) for one in found]

    def decide(self, one: Approval, *, allow: bool, now: float) -> None:
        """Keep a person's word; it is in force when this returns, in every process. Raises: OSError, Unprocessable."""
        values = asdict(one) | {"state": "allowed" if allow else "denied", "time": now}
        decision = _Decision.model_validate(values)
        make_private(self._file.parent)
        with locked(self._file):
            known = self._read()
            known[decision.project, decision.sha256] = decision
            entries = [kept.model_dump() for kept in known.values()]
            replace_private(self._file, json.dumps({"version": 1, "approvals": entries}, indent=1).encode())
        self._stamp = None
        self._refresh()

    def _is_allowed(self, project: str, digest: str, cwd: Path | None) -> bool:
        self._refresh()
        entries = [one for one in self._known.values() if one.entry == (project, digest) and one.state == "allowed"]
        return bool(entries) and _whole(digest, _pinned_in(entries[0], cwd)) in {one.sha256 for one in entries}

    def _told(self, one: Approval) -> Approval:
        known = self._known.get((one.project, one.sha256))
        return one if known is None else Approval(**asdict(one) | {"state": known.state, "time": known.time})

    def _refresh(self) -> None:
        stamp = self._look()
        if stamp is not None and stamp == self._stamp:
            return
        try:
            self._known = self._read() if stamp is not None else {}
        except Unprocessable as error:
            log.warning("%s Until then nothing of a repository is approved.", error)
            self._known = {}
        self._stamp = stamp

    def _look(self) -> _Stamp | None:
        try:
            status = os.stat(self._file)  # noqa: PTH116 - beside `fstat`'s fields, and Path.stat is no shorter
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self) -> dict[_Key, _Decision]:
        try:
            data = json.loads(read_regular(self._file, MAX_STORE_BYTES))
            entries = [_Decision.model_validate(entry) for entry in data["approvals"]]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            why = type(error).__name__
            raise Unprocessable(f"{FILE_NAME} cannot be read: {why}. Mend it, or remove it and approve anew.") from None
        return {(one.project, one.sha256): one for one in entries}


def _pinned_in(decision: _Decision, cwd: Path | None) -> dict[str, str]:
    """The scripts of an entry that was decided about, as they are now."""
    content = json.loads(decision.content)
    return pinned_files(content if isinstance(content, dict) else {}, Path(decision.project), cwd)


def find(approvals: Sequence[Approval], approval_id: str) -> Approval:
    """Raises: NotFound for what does not wait, or has changed since it was shown."""
    for one in approvals:
        if one.id == approval_id:
            return one
    raise NotFound("Nothing of that id waits here. What has changed since it was shown has another id: look again.")
