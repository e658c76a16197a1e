"""What the sandbox adds to a trivial command of `bash`: the same call with and without it, by turns in one run."""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolRoom
from agentcore.sandbox.choosing import for_this_system
from agentcore.tools.bash import BashInput, BashTool
from agentcore.tools.boxed import Boxing
from tests.benchmarks.table import Row, judge

RUNS = 80
LIMIT_MS = 15.0
CREDENTIALS = (".aws", ".config/gcloud", ".docker", ".gnupg", ".kube", ".ssh")
FILES = (".git-credentials", ".netrc", ".npmrc", ".pypirc")


def sandbox() -> list[Row]:
    return anyio.run(_rows)


async def _rows() -> list[Row]:
    boxed = for_this_system()
    await boxed.probe()
    if not boxed.is_available:
        return [Row(f"sandbox: {boxed.why_not}", "", "", float("nan"), f"<= {LIMIT_MS:g} ms", judge(0, LIMIT_MS))]
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:  # not in /tmp, where nothing needs to be hidden
        workspace = await anyio.to_thread.run_sync(_furnished, Path(folder).resolve())
        bare = BashTool(workspace, os.environ)
        confined = BashTool(workspace, os.environ, boxing=Boxing(boxed, lambda: "default"))
        costs: dict[BashTool, list[float]] = {bare: [], confined: []}
        for _ in range(RUNS):
            for tool, spent in costs.items():
                spent.append(await _ms(tool))
    usual, more = (statistics.quantiles(costs[tool], n=10)[0] for tool in (bare, confined))  # noise is upward
    return [
        Row(
            "a trivial command in the sandbox",
            f"{more - usual:.1f} ms more",
            f"{usual:.1f} ms without",
            more / usual,
            f"<= {LIMIT_MS:g} ms more",
            judge(more - usual, LIMIT_MS),
        )
    ]


async def _ms(tool: BashTool) -> float:
    began = time.perf_counter()
    outcome = await tool.run(BashInput(command="true"), ToolRoom("call", lambda text: None))
    spent = time.perf_counter() - began
    assert outcome.output == "(no output)\n[exit code 0]", outcome.output
    return spent * 1000


def _furnished(home: Path) -> Workspace:
    """A home with credentials and a server's state, and a project with a repository and an editor's settings."""
    project, state, session = home / "code" / "project", home / ".local/share/agentcore", home / "one"
    folders = [*(home / name for name in CREDENTIALS), state, session, project / ".vscode", project / ".claude"]
    for folder in folders:
        folder.mkdir(parents=True)
    for file in (*(home / name for name in FILES), project / ".envrc"):
        file.touch()
    subprocess.run(["git", "init", "-q", project], check=True)
    hidden = tuple(home / name for name in (*CREDENTIALS, *FILES, ".local/share/agentcore"))
    return Workspace(project, (project,), hidden, (session,))
