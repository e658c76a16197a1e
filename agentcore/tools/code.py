"""What a session may see of what language servers know: its own files with their lines, all else by name alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from agentcore.files import MAX_WHOLE_BYTES, open_regular, opened_folder
from agentcore.languages import Checked, CodeFile, Languages, Place, Problem
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.diagnostics import Diagnostics
from agentcore.ports.tools import Outcome, ToolError
from agentcore.tools.editor import is_binary
from agentcore.tools.texts import safe_name
from agentcore.within import one_line, top_of

MAX_SHOWN = 20
"""Problems behind a change; more would bury the result of the edit."""


class SessionCode:
    """The files of one session, as they are handed to the language servers that all sessions share."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def file(self, real: Path) -> CodeFile:
        """A file that was resolved."""
        return CodeFile(real, top_of(real.parent, self._workspace.roots), self.text)

    def text(self, path: Path) -> str | None:
        """The text of a file without its byte order mark; None where the session may not see it. Blocking."""
        try:
            real = self._workspace.resolve(str(path))
            with opened_folder(real.parent) as folder, open_regular(folder, real.name or ".") as file:
                data = file.read(MAX_WHOLE_BYTES + 1)
        except (OSError, OutsideRoots, ToolError):
            return None
        if len(data) > MAX_WHOLE_BYTES or is_binary(data):
            return None
        return data.decode("utf-8-sig", errors="replace")

    def shown(self, place: Place) -> str:
        """A place as `path:line:column`, with a word about one that lies outside."""
        where = f"{safe_name(self._workspace.shown(place.path))}:{place.line}:{place.column}"
        return where if place.text is not None else f"{where} (outside of the project)"

    def line(self, problem: Problem) -> str:
        source = f" [{problem.source}]" if problem.source else ""
        return f"{self.shown(problem.place)}: {problem.severity}: {problem.message}{source}"


class SessionDiagnostics:
    """Satisfies the Diagnostics port with the language servers that all sessions share."""

    def __init__(self, workspace: Workspace, languages: Languages) -> None:
        self._code = SessionCode(workspace)
        self._languages = languages

    async def after_change(self, real: Path) -> str:
        if not self._languages.covers(real):
            return ""
        checked = await self._languages.after_change(self._code.file(real))
        return "" if checked is None else self._told(checked)

    def _told(self, checked: Checked) -> str:
        if checked.pending:
            return f"[problems are not known yet: {checked.pending}]"
        lines = list(self._lines("New problems", checked.new))
        lines += self._lines("Problems that were there before", checked.old, MAX_SHOWN - min(MAX_SHOWN, len(lines)))
        return "\n".join(lines)

    def _lines(self, title: str, problems: Sequence[Problem], limit: int = MAX_SHOWN) -> Iterator[str]:
        if not problems:
            return
        yield f"{title} in this file ({_count(problems)}):"
        yield from (self._code.line(problem) for problem in problems[:limit])
        if len(problems) > limit:
            yield f"[{len(problems) - limit} more not shown; ask lsp for its diagnostics]"


def _count(problems: Sequence[Problem]) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    counts = [(errors, "error"), (len(problems) - errors, "warning")]
    return ", ".join(f"{number} {name}{'s' if number > 1 else ''}" for number, name in counts if number)


async def with_problems(outcome: Outcome, real: Path, diagnostics: Diagnostics | None) -> Outcome:
    """The outcome of a change with what is wrong in the file now; just the outcome when the call is cancelled."""
    if diagnostics is None:
        return outcome
    try:
        text = await diagnostics.after_change(real)
    except anyio.get_cancelled_exc_class():
        return outcome  # the file is changed, and that is the result; whatever waits next is cancelled too
    return replace(outcome, output=f"{outcome.output}\n{text}") if text else outcome


def short(text: str) -> str:
    """A line of code behind its place."""
    return one_line(text, 200)
