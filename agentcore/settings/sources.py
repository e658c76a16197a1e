"""Where a process looks for settings, and the looking: each file as a layer. Blocks: call it in a worker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.origin import Origin
from agentcore.settings.documents import Broken, Document, read_own, read_shared
from agentcore.settings.layers import Layer, unreadable
from agentcore.settings.others import read_imported, read_mcp_json, read_shared_json, read_shared_toml
from agentcore.settings.own import read_private, read_user
from agentcore.settings.places import IMPORTED, SharedFile, imported_file, project_top, shared_files
from agentcore.settings.private import FILE_NAME, project_file, user_file
from agentcore.settings.tighter import TIGHTER


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a process looks for settings."""

    config_dir: Path
    home: Path
    """Of the user: `~` in settings, and the folder of what he wrote for another agent."""
    roots: tuple[Path, ...] = ()
    """Resolved folders in which sessions may work."""
    environ: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    """What was chosen on the command line, by dotted key."""


def read_user_layer(sources: Sources) -> Layer:
    """What the user wants everywhere. Raises: Unprocessable."""
    return _own(user_file(sources.config_dir), FILE_NAME, sources.config_dir, read_user)


def read_private_layer(sources: Sources, cwd: Path, project: str) -> Layer:
    """What the user wants in one project. Raises: Unprocessable."""
    name = f"projects/{project}/{FILE_NAME}"
    return _own(project_file(sources.config_dir, project), name, cwd, read_private)


def read_imported_layer(sources: Sources, *, with_allow: bool | None) -> Layer:
    """What the user wrote for another agent."""
    file = imported_file(sources.home)
    origin = Origin(IMPORTED, file.parent)
    try:
        document = read_own(file, IMPORTED, "JSON")
    except Broken as error:
        return unreadable(origin, str(error))
    return Layer(origin) if document is None else read_imported(document, origin, with_allow=with_allow)


def read_shared_layers(sources: Sources, cwd: Path) -> list[Layer]:
    """What comes with the repository around `cwd`, the nearest folder first; nothing of it refuses."""
    top = project_top(cwd, sources.roots)
    found = []
    for file in shared_files(cwd, top, imported_file(sources.home.resolve())):
        layer = _shared(file, top)
        if layer is not None:
            found.append(layer)
    return found


def _own(file: Path, name: str, base: Path, read: Callable[[Document, Origin], Layer]) -> Layer:
    origin = Origin(name, base)
    try:
        document = read_own(file, name, "TOML")
    except Broken as error:
        raise Unprocessable(str(error)) from None
    return Layer(origin) if document is None else read(document, origin)


def _shared(file: SharedFile, top: Path) -> Layer | None:
    origin = Origin(file.name, file.folder, is_shared=True)
    try:
        document = read_shared(file.path, top, file.name, file.syntax)
    except Broken as error:
        if file.path.name == ".mcp.json":  # it holds nothing that forbids
            return Layer(origin, notices=(str(error),))
        return unreadable(origin, str(error))
    if document is None:
        return None
    if file.syntax == "TOML":
        return read_shared_toml(document, origin, TIGHTER)
    return read_mcp_json(document, origin) if file.path.name == ".mcp.json" else read_shared_json(document, origin)
