"""The tool `lsp`: what language servers know about code. It reads only: what a server would change is shown as a diff.

One tool is one kind of thing to the gate, so an edit that a server works out is not made here; the model makes it
with the tools that are judged as edits.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, assert_never

from pydantic import Field

from agentcore.languages import CodeAction, CodeFile, FileRewrite, Languages, Place, Spot, Symbol
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.code import SessionCode, short
from agentcore.tools.diffs import unified_diff
from agentcore.tools.inputs import Plain
from agentcore.tools.texts import bounded_lines
from agentcore.tools.threads import failures_told, read_in_thread
from agentcore.values import Value

MAX_PLACES = 200
MAX_PROBLEMS = 100

Action = Literal[
    "definition", "references", "hover", "symbols", "workspace_symbols", "diagnostics", "rename", "code_actions"
]


class LspInput(Value):
    action: Action = Field(
        description="What to ask: where a name is defined or used, what it is, the symbols of a file or of its whole "
        "project, the errors and warnings of a file, what a rename would change, what fixes there are for a line."
    )
    file_path: Plain = Field(
        description="File that is asked about: absolute, or relative to the working directory. For workspace_symbols "
        "any file of the project and language."
    )
    line: int | None = Field(default=None, ge=1, description="Line of the name, from 1, as `read` numbers them.")
    character: int | None = Field(
        default=None, ge=1, description="Column of the name in its line, in characters from 1. Or give query."
    )
    query: Plain | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="In place of character: the name, as it stands in the line (without line: anywhere in the file). "
        "For workspace_symbols: what the symbols' names contain.",
    )
    new_name: Plain | None = Field(default=None, min_length=1, max_length=1000, description="For rename.")


class LspTool:
    spec = ToolSpec(
        name="lsp",
        description=(
            "Ask a language server about code: more exact than grep for definitions, uses and errors. Changes "
            "nothing: rename and code_actions show what would change, to be done with edit or multi_edit."
        ),
        input=LspInput,
        read_only=True,
        parallel_safe=True,
        paths=("file_path",),
    )

    def __init__(self, workspace: Workspace, languages: Languages) -> None:
        self._workspace = workspace
        self._languages = languages
        self._code = SessionCode(workspace)

    def preview(self, input: LspInput) -> None:
        return None

    async def run(self, input: LspInput, room: ToolRoom) -> Outcome:
        file, text = await read_in_thread(self._file, input.file_path)
        return Outcome(await self._answer(input, file, text))

    def _file(self, file_path: str) -> tuple[CodeFile, str]:
        with failures_told(file_path):
            real = self._workspace.resolve(file_path)
            if real.is_dir():
                raise IsADirectoryError
            if not real.exists():
                raise FileNotFoundError
        text = self._code.text(real)
        if text is None:
            raise ToolError(f"{file_path} cannot be read as text")
        return self._code.file(real), text

    async def _answer(self, input: LspInput, file: CodeFile, text: str) -> str:
        ask = self._languages
        match input.action:
            case "definition":
                return self._places(await ask.definition(_spot(input, file, text)))
            case "references":
                return self._places(await ask.references(_spot(input, file, text)))
            case "hover":
                return await ask.hover(_spot(input, file, text)) or "Nothing is known about this place."
            case "symbols":
                return self._symbols(await ask.symbols(file))
            case "workspace_symbols":
                return self._symbols(await ask.workspace_symbols(file, input.query or ""))
            case "diagnostics":
                problems = await ask.diagnostics(file)
                lines = [self._code.line(problem) for problem in problems]
                return _bounded(lines, MAX_PROBLEMS, "mend these first") or "No errors and no warnings."
            case "rename":
                if input.new_name is None:
                    raise ToolError("rename needs new_name")
                return await self._rename(_spot(input, file, text), input.new_name)
            case "code_actions":
                if input.line is None:
                    raise ToolError("code_actions needs line")
                return await self._actions(Spot(file, input.line, 1))
            case _:
                assert_never(input.action)

    def _places(self, places: Sequence[Place]) -> str:
        lines = [f"{self._code.shown(one)}{'' if one.text is None else f': {short(one.text)}'}" for one in places]
        return _bounded(lines, MAX_PLACES, "ask about a narrower name") or "Nothing found."

    def _symbols(self, symbols: Sequence[Symbol]) -> str:
        lines = [self._symbol(one) for one in symbols]
        return _bounded(lines, MAX_PLACES, "look for a longer name with workspace_symbols") or "Nothing found."

    def _symbol(self, one: Symbol) -> str:
        inside = f" (in {one.container})" if one.container else ""
        return f"{self._code.shown(one.place)}: {one.kind} {one.name}{inside}"

    async def _rename(self, spot: Spot, new_name: str) -> str:
        rewrites = await self._languages.rename(spot, new_name)
        if not rewrites:
            return "Nothing would change."
        diff = await read_in_thread(self._diff, rewrites)
        files = ", ".join(self._workspace.shown(one.path) for one in rewrites)
        return f"Nothing was changed. The rename changes {files}; make it with multi_edit:\n{diff}"

    async def _actions(self, spot: Spot) -> str:
        actions = await self._languages.code_actions(spot)
        told = [await read_in_thread(self._action, number, one) for number, one in enumerate(actions, 1)]
        lines = "\n".join(told).split("\n") if told else []
        return bounded_lines(lines, len(lines), "make the first ones, then ask again") or "Nothing is offered there."

    def _action(self, number: int, one: CodeAction) -> str:
        kind = f" [{one.kind}]" if one.kind else ""
        diff = f"\n{self._diff(one.rewrites)}" if one.rewrites else ""
        return f"{number}. {one.title}{kind}{diff}"

    def _diff(self, rewrites: Iterable[FileRewrite]) -> str:
        shown = [unified_diff(one.before, one.after, self._workspace.shown(one.path)) for one in rewrites]
        lines = "".join(shown).rstrip("\n").split("\n")
        return bounded_lines(lines, len(lines), "make these changes first, then ask again")


def _bounded(lines: Sequence[str], limit: int, advice: str) -> str:
    return bounded_lines(lines[:limit], len(lines), advice)


def _spot(input: LspInput, file: CodeFile, text: str) -> Spot:
    """The place that is asked about. Raises: ToolError with what is missing."""
    if input.line is not None and input.character is not None:
        return Spot(file, input.line, input.character)
    if input.query is None:
        raise ToolError(f"{input.action} needs line and character, or the name in query")
    lines = text.split("\n")
    numbers = range(1, len(lines) + 1) if input.line is None else range(input.line, min(input.line, len(lines)) + 1)
    for number in numbers:
        if column := _column(lines[number - 1], input.query):
            return Spot(file, number, column)
    where = Path(input.file_path).name if input.line is None else f"line {input.line}"
    raise ToolError(f"{short(input.query)} does not stand in {where}: read the file for its present lines")


def _column(line: str, name: str) -> int:
    """Where a name begins in a line, from 1, as a whole word; 0 where it does not stand there."""
    match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line)
    return match.start() + 1 if match else 0
