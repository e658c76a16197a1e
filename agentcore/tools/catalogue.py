"""The built-in tools of one session. The only module that outsiders need from this room."""

from collections.abc import Mapping

from agentcore.permissions.workspace import Workspace
from agentcore.ports import Blobs, Checkpoints, Tool
from agentcore.tools.bash import BashTool
from agentcore.tools.edit import EditTool, MultiEditTool
from agentcore.tools.editor import FileEditor
from agentcore.tools.glob import GlobTool
from agentcore.tools.grep import GrepTool
from agentcore.tools.ls import LsTool
from agentcore.tools.plan import PlanTool
from agentcore.tools.read import ReadTool
from agentcore.tools.todo import TodoTool
from agentcore.tools.versions import FileVersions
from agentcore.tools.write import WriteTool


def builtin_tools(
    workspace: Workspace,
    environ: Mapping[str, str],
    blobs: Blobs,
    *,
    versions: FileVersions | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[Tool, ...]:
    """Make a fresh set, sorted by name.

    `environ` is what commands inherit; secrets in it are withheld. `blobs` keeps the pictures that are shown.
    `versions` is the record of what was read, to be handed over where two sets belong to one session. `checkpoints`
    keeps what files hold before a tool changes them; without it nothing can be undone.
    """
    versions = versions or FileVersions()
    editor = FileEditor(workspace, versions, checkpoints)
    return (
        BashTool(workspace, environ, checkpoints),
        EditTool(editor),
        PlanTool(),
        GlobTool(workspace, environ),
        GrepTool(workspace, environ),
        LsTool(workspace),
        MultiEditTool(editor),
        ReadTool(workspace, versions, blobs),
        TodoTool(),
        WriteTool(editor),
    )
