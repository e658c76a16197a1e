"""The tool `grep`: a regular expression over the project's files, by the packaged ripgrep."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

from pydantic import ConfigDict, Field

from agentcore.caps import safe_text
from agentcore.environment import command_environ
from agentcore.permissions.unread import Unread, demand_undenied
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.inputs import Plain
from agentcore.tools.ripgrep import TIMEOUT_S, Found, Place, locate, search
from agentcore.tools.texts import bounded_lines, safe_name
from agentcore.tools.threads import read_in_thread
from agentcore.values import Value

MAX_RESULTS = 1000
MAX_LINE_BYTES = 500

_MODE_FLAGS: dict[str, tuple[str, ...]] = {
    "files_with_matches": ("--files-with-matches",),
    "count": ("--count", "--with-filename"),
    "content": (
        "--line-number",
        "--with-filename",
        "--no-heading",
        f"--max-columns={MAX_LINE_BYTES}",
        "--max-columns-preview",
    ),
}
_RECORD = re.compile(rb"([^\0\n]*)\0([^\n]*)\n")
"""Path and the rest of its line; a line without NUL is a remark of ripgrep's about a binary file."""


class GrepInput(Value):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    pattern: Plain = Field(min_length=1, description="Regular expression in ripgrep's syntax.")
    path: Plain = Field(default=".", description="Folder or file to search; the working directory unless set.")
    glob: Plain | None = Field(default=None, description="Only files that match, such as `*.py` or `src/**/*.ts`.")
    output_mode: Literal["files_with_matches", "content", "count"] = Field(
        default="files_with_matches",
        description="Paths of the files, matching lines with their numbers, or numbers of matching lines.",
    )
    ignore_case: bool = Field(default=False, alias="-i", description="Ignore upper and lower case.")
    multiline: bool = Field(default=False, description="Let matches span lines; a dot matches line ends too.")
    head_limit: int = Field(
        default=MAX_RESULTS, ge=1, le=MAX_RESULTS, description="Results (lines of the answer) to return at most."
    )


class GrepTool:
    spec = ToolSpec(
        name="grep",
        description=(
            "Search file contents with a regular expression (ripgrep). Leaves out what .gitignore names, .git and "
            "binary files. Look for files first (the default), then for lines with output_mode content."
        ),
        input=GrepInput,
        read_only=True,
        parallel_safe=True,
        paths=("path",),
    )

    def __init__(self, workspace: Workspace, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environ = command_environ(environ)

    async def run(self, input: GrepInput, room: ToolRoom) -> Outcome:
        place = await read_in_thread(locate, self._workspace, input.path, own_state=True)
        found = await search(place, self._environ, tuple(_flags(input)), input.glob)
        found.demand_success()
        return Outcome(await read_in_thread(self._told, input, place, found))

    def preview(self, input: GrepInput) -> None:
        return None

    def _told(self, input: GrepInput, place: Place, found: Found) -> str:
        """One line for each result, by path; ripgrep's threads finish in any order."""
        results = sorted(self._readable(input, place, found), key=lambda result: result[0])
        if not results and found.is_partial:
            raise ToolError(f"nothing found within {TIMEOUT_S:.0f} s: search a smaller folder")
        lines = (self._line(place, path, rest) for path, rest in results[: input.head_limit])
        text = bounded_lines(lines, len(results), "narrow the pattern, the path or the glob")
        if found.is_partial:
            text += "\n[the search was stopped early: there may be more]"
        if found.remarks:
            text += f"\n[the search failed in part: {found.remarks.splitlines()[0]}]"
        return text or "No matches found."

    def _readable(self, input: GrepInput, place: Place, found: Found) -> Iterator[tuple[bytes, bytes]]:
        """The results, without those of files that a rule forbids to read. Raises: ToolError for a single such file."""
        results = _results(input.output_mode, found.output)
        if place.name is not None:
            demand_undenied(self._workspace, self.spec.name, input.path, place.folder / place.name)
            return results
        unread = Unread(self._workspace, self.spec.name, input.path, place.folder)
        is_unread = cache(lambda path: unread.has(os.fsdecode(path).removeprefix("./")))
        return (result for result in results if not is_unread(result[0]))

    def _line(self, place: Place, path: bytes, rest: bytes) -> str:
        shown = self._workspace.shown(place.folder / os.fsdecode(path))
        return safe_name(shown) + safe_text(rest.decode(errors="replace"))


def _flags(input: GrepInput) -> Iterator[str]:
    yield from _MODE_FLAGS[input.output_mode]
    yield "--engine=auto"
    if input.ignore_case:
        yield "--ignore-case"
    if input.multiline:
        yield from ("--multiline", "--multiline-dotall")
    yield f"--regexp={input.pattern}"


def _results(mode: str, output: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Path and what follows it in the answer's line."""
    if mode == "files_with_matches":
        yield from ((path, b"") for path in output.split(b"\0")[:-1])
        return
    for record in _RECORD.finditer(output):
        yield record[1], b":" + record[2].rstrip(b"\r")
