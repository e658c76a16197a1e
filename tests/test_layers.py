"""Imports point up the list of rooms, never down, and never sideways between two rooms of L3 or L4."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"values", "ids", "messages", "events", "errors", "replies", "usage", "session", "encoding"}),
    frozenset(
        {
            "ports",
            "addresses",
            "caps",
            "clock",
            "confined",
            "environment",
            "estimate",
            "files",
            "folders",
            "git_environ",
            "images",
            "languages",
            "limits",
            "log_ids",
            "marks",
            "media",
            "origin",
            "processes",
            "questions",
            "redaction",
            "schema_check",
            "schema_input",
            "serving",
            "web_address",
            "wiretap",
            "within",
        }
    ),
    frozenset(
        {
            "transcript",
            "attached",
            "validator",
            "stops",
            "retry",
            "candidates",
            "turn",
            "walk",
            "call",
            "batch",
            "loop",
            "budget",
            "inbox",
            "deferrals",
            "tasks",
            "toolbox",
        }
    ),
    frozenset(
        {
            "permissions",
            "hooks",
            "guard",
            "beside",
            "judge",
            "compaction",
            "settings",
            "structured",
            "instruction_files",
            "instructions",
            "memory",
            "skills",
            "spending",
            "notes",
            "notifications",
        }
    ),
    frozenset(
        {
            "providers",
            "tools",
            "sessions",
            "checkpoints",
            "sandbox",
            "lsp",
            "telemetry",
            "tracing",
            "background",
            "subagents",
            "mcp",
        }
    ),
    frozenset(
        {
            "agent",
            "assembly",
            "budgets",
            "delegated",
            "delegating",
            "outfitting",
            "preloading",
            "worktrees",
            "context",
            "doctor",
            "hearing",
            "opening",
            "surrounded",
            "hooked",
            "leftovers",
            "results",
            "run",
            "app",
            "app_config",
            "attachments",
            "expansion",
            "factory",
            "makers",
            "mentions",
            "nearby",
            "skilled",
            "skills_in_use",
            "traces",
            "surroundings",
            "server_setup",
            "confinement",
        }
    ),
)
SEPARATE = (4,)
"""Layers whose rooms do not know each other. (In L3 `settings` writes the rules that `permissions` reads.)"""

SERVER_MAY = LAYERS[0] | LAYERS[1] | LAYERS[5]
CLIENTS_MAY = LAYERS[0]
VENDOR_SDKS = frozenset({"anthropic", "openai", "google", "httpx2", "mcp", "mcp_types"})
USED_IN = {
    "httpx2": frozenset({"providers", "hooks", "mcp"}),  # rooms that send requests; it comes with the SDKs
    "mcp": frozenset({"mcp"}),
    "mcp_types": frozenset({"mcp"}),
}
"""Rooms that may know one that is no model vendor's."""
WEB = frozenset({"starlette", "uvicorn", "sse_starlette"})

Import = tuple[str, int, bool]
"""Dotted name, line, and whether it is late: inside a function, or for the type checker alone."""


def imports_of(path: Path) -> Iterator[Import]:
    yield from imports_in(path.read_text(), str(path))


def imports_in(source: str, path: str = "") -> Iterator[Import]:
    tree = ast.parse(source)
    late = {id(node) for statement in late_statements(tree) for node in ast.walk(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            yield module, node.lineno, id(node) in late
            if module in ("agentcore", "server"):
                for alias in node.names:
                    yield f"{module}.{alias.name}", node.lineno, id(node) in late


def late_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """What does not run when the module is imported: functions, and what stands under `if TYPE_CHECKING:`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                yield from body


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "agentcore").parts[0].removesuffix(".py")


def layer_of(room: str) -> int:
    return next(level for level, rooms in enumerate(LAYERS) if room in rooms)


def test_late_is_what_does_not_run_at_import() -> None:
    source = """
import one
if TYPE_CHECKING:
    import two
    if x:
        import three
else:
    import four
try:
    import five
except ImportError:
    pass
def f():
    import six
class C:
    import seven
    def g(self):
        import eight
"""
    late = {name for name, _, is_late in imports_in(source) if is_late}
    assert late == {"two", "three", "six", "eight"}


@pytest.mark.parametrize("path", files("agentcore"), ids=str)
def test_agentcore_imports_only_upwards(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    level = layer_of(room)
    for name, line, _ in imports_of(path):
        top, _, rest = name.partition(".")
        assert top not in WEB | {"server", "agentcore_client", "agentcore_selfcheck"}, f"{path}:{line} knows {name}"
        if top != "agentcore" or not rest:
            continue
        other = rest.split(".")[0]
        assert layer_of(other) <= level, f"{path}:{line} imports down: {name}"
        sideways = layer_of(other) == level and other != room
        assert not (sideways and level in SEPARATE), f"{path}:{line} imports sideways: {name}"


@pytest.mark.parametrize("path", files("agentcore") + files("server"), ids=str)
def test_only_providers_know_vendor_sdks_and_load_them_late(path: Path) -> None:
    for name, line, is_late in imports_of(path):
        if name.split(".")[0] in VENDOR_SDKS:
            rooms = USED_IN.get(name.split(".")[0], {"providers"})
            folders = [ROOT / "agentcore" / room for room in rooms]
            assert any(path.is_relative_to(folder) for folder in folders), f"{path}:{line} knows {name}"
            assert is_late, f"{path}:{line} loads {name} at import"


@pytest.mark.parametrize("path", files("agentcore") + files("server"), ids=str)
def test_only_the_room_of_telemetry_knows_opentelemetry(path: Path) -> None:
    for name, line, _ in imports_of(path):
        is_there = path.is_relative_to(ROOT / "agentcore" / "telemetry")
        assert is_there or name.split(".")[0] != "opentelemetry", f"{path}:{line} knows {name}"


@pytest.mark.parametrize("path", files("server"), ids=str)
def test_the_server_knows_the_vocabulary_the_ports_and_the_assembly(path: Path) -> None:
    for name, line, is_late in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "agentcore" and rest:
            assert rest.split(".")[0] in SERVER_MAY, f"{path}:{line} reaches into {name}"
        if top in ("agentcore_client", "agentcore_selfcheck"):
            assert path.name == "cli.py", f"{path}:{line} knows a client"
            assert is_late, f"{path}:{line} loads a client at import"


@pytest.mark.parametrize("path", files("clients"), ids=str)
def test_clients_know_the_vocabulary_alone(path: Path) -> None:
    for name, line, _ in imports_of(path):
        top, _, rest = name.partition(".")
        assert top not in WEB | {"server"}, f"{path}:{line} knows {name}"
        if top == "agentcore" and rest:
            assert rest.split(".")[0] in CLIENTS_MAY, f"{path}:{line} reaches into {name}"


PACKAGES = ("agentcore", "server", "clients/python/agentcore_client", "clients/python/agentcore_selfcheck")


@pytest.mark.parametrize("folder", PACKAGES)
def test_package_roots_hold_a_docstring_and_nothing_else(folder: str) -> None:
    for path in (ROOT / folder).rglob("__init__.py"):
        body = ast.parse(path.read_text()).body
        assert len(body) == 1, path
        assert isinstance(body[0], ast.Expr), path
