"""The built-in tools of one session. The only module that outsiders need from this room."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentcore.clock import SystemClock
from agentcore.languages import Languages
from agentcore.permissions.workspace import Workspace
from agentcore.ports.background import Background
from agentcore.ports.blobs import Blobs
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.tools import Tool
from agentcore.tools.ask import AskUserTool
from agentcore.tools.bash import BashTool
from agentcore.tools.boxed import Boxing
from agentcore.tools.code import SessionDiagnostics
from agentcore.tools.edit import EditTool, MultiEditTool
from agentcore.tools.editor import FileEditor
from agentcore.tools.glob import GlobTool
from agentcore.tools.grep import GrepTool
from agentcore.tools.ls import LsTool
from agentcore.tools.lsp import LspTool
from agentcore.tools.plan import PlanTool
from agentcore.tools.read import ReadTool
from agentcore.tools.tasks import TaskOutputTool, TaskStopTool
from agentcore.tools.todo import TodoTool
from agentcore.tools.versions import FileVersions
from agentcore.tools.web.cache import PageCache
from agentcore.tools.web.fetch import WebFetchTool
from agentcore.tools.web.fetching import Web
from agentcore.tools.web.search import WebSearchTool
from agentcore.tools.web.services import chosen
from agentcore.tools.write import WriteTool

NAMES = frozenset(
    {
        "ask_user",
        "bash",
        "call_tool",
        "edit",
        "exit_plan_mode",
        "glob",
        "grep",
        "ls",
        "lsp",
        "memory",
        "multi_edit",
        "read",
        "skill",
        "task",
        "task_output",
        "task_stop",
        "todo_write",
        "tool_search",
        "web_fetch",
        "web_search",
        "write",
    }
)
"""What is this server's own, whether or not the tool is there: nobody else's tool may have such a name."""


@dataclass(frozen=True, slots=True)
class WebAccess:
    """The way to the network, and what was fetched lately: one for all sessions of a process."""

    web: Web = field(default_factory=Web)
    cache: PageCache = field(default_factory=lambda: PageCache(SystemClock()))


def builtin_tools(
    workspace: Workspace,
    environ: Mapping[str, str],
    blobs: Blobs,
    *,
    versions: FileVersions | None = None,
    checkpoints: Checkpoints | None = None,
    web: WebAccess | None = None,
    boxing: Boxing | None = None,
    languages: Languages | None = None,
    background: Background | None = None,
    exported: Callable[[], Mapping[str, str]] = dict,
) -> tuple[Tool, ...]:
    """Make a fresh set, sorted by name.

    `environ` is what commands inherit, without the secrets in it; a search service's key in it brings `web_search`.
    `blobs` keeps the pictures that are shown. `versions` is the record of what was read, to be handed over where two
    sets belong to one session. `checkpoints` keeps what files hold before a tool changes them; without it nothing can
    be undone. `web` is what sessions share of the network. `boxing` is what confines commands; without it none is.
    `languages` is what sessions share of language servers: it brings `lsp`, and what is wrong in a file behind each
    change of it. `background` runs what outlives its call: it brings `task_output` and `task_stop`, and `bash` can be
    told to run in the background. `exported` is what commands get besides, at that moment.
    """
    versions = versions or FileVersions()
    web = web or WebAccess()
    service = chosen(environ)
    editor = FileEditor(workspace, versions, checkpoints)
    diagnostics = None if languages is None else SessionDiagnostics(workspace, languages)
    return (
        AskUserTool(),
        BashTool(workspace, environ, checkpoints, boxing, background, exported=exported),
        EditTool(editor, diagnostics),
        PlanTool(),
        GlobTool(workspace, environ),
        GrepTool(workspace, environ),
        LsTool(workspace),
        *(() if languages is None else (LspTool(workspace, languages),)),
        MultiEditTool(editor, diagnostics),
        ReadTool(workspace, versions, blobs),
        *(() if background is None else (TaskOutputTool(background), TaskStopTool(background))),
        TodoTool(),
        WebFetchTool(web.web, web.cache, blobs, rules=(*workspace.deny, *workspace.ask)),
        *(() if service is None else (WebSearchTool(web.web, *service),)),
        WriteTool(editor, diagnostics),
    )
