"""`agentcore hooks`: what runs beside a session in a folder, what a repository wants to run, and a person's word on it.

Needs no running server; one that runs sees the decision at once. Promise: what is approved is shown whole before, with
everything written out that a terminal would obey or hide.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio

from agentcore.app import App
from agentcore.errors import AgentError
from server.config import app_in
from server.settings import CannotStart, existing_folder
from server.terminal import sentence, visible

WORDS = {"allowed": "active", "denied": "denied", "waiting": "waiting"}


def main(cwd: Path, *, allow: str | None, deny: str | None) -> int:
    """List, or decide about one; return the exit code. Raises: CannotStart."""
    folder = existing_folder(cwd)
    approval_id = allow or deny
    try:
        app = app_in(folder)
        if approval_id is None:
            told = anyio.run(_listed, app, folder)
        else:
            told = anyio.run(_decided, app, folder, approval_id, allow is not None)
    except (AgentError, OSError) as error:
        raise CannotStart(sentence(error)) from error
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return 0


async def _listed(app: App, folder: Path) -> list[str]:
    effective = await app.effective(folder)
    lines: list[str] = []
    for hook in effective.hooks:
        if not hook.origin.is_shared:
            lines += _entry("active", f"hook {hook.event}", hook.origin.name, hook.title)
    for server in effective.mcp_servers:
        if not server.origin.is_shared:
            lines += _entry("active", f"MCP server {server.name}", server.origin.name, server.line)
    approvals = await app.find_approvals([folder])
    for one in approvals:
        lines += _entry(WORDS[one.state], f"{one.title} {one.id}", one.source, one.content)
    if any(one.waits for one in approvals):
        lines.append("Decide with agentcore hooks --approve ID, or --deny ID.")
    return lines or ["Nothing runs beside a session here, and nothing waits for approval."]


async def _decided(app: App, folder: Path, approval_id: str, allow: bool) -> list[str]:
    one = await app.decide_approval([folder], approval_id, allow=allow)
    state = "active" if allow else "denied"
    return [
        *_entry(state, f"{one.title} {one.id}", one.source, one.content),
        f"In {visible(one.project)}, from now on.",
    ]


def _entry(state: str, what: str, source: str, content: str) -> Iterator[str]:
    yield f"{state:<8} {visible(what)} in {visible(source)}"
    yield f"         {visible(content)}"
