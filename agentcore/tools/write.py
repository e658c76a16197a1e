"""The tool `write`: a whole file, new or in the place of one that the model has read."""

from functools import partial

from pydantic import Field

from agentcore.ports.diagnostics import Diagnostics
from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.tools.code import with_problems
from agentcore.tools.editor import FileEditor
from agentcore.tools.inputs import Plain
from agentcore.tools.matching import with_newlines_of
from agentcore.tools.threads import write_in_thread
from agentcore.values import Value


class WriteInput(Value):
    file_path: Plain = Field(description="File to write: absolute, or relative to the working directory.")
    content: Plain = Field(description="The whole new content.")


class WriteTool:
    spec = ToolSpec(
        name="write",
        description=(
            "Write a whole text file; missing folders are created. An existing file must have been read in this "
            "session first. To change part of a file use edit."
        ),
        input=WriteInput,
        edits=True,
        paths=("file_path",),
    )

    def __init__(self, editor: FileEditor, diagnostics: Diagnostics | None = None) -> None:
        """Without `diagnostics` nothing is said about what is wrong in the file afterwards."""
        self._editor = editor
        self._diagnostics = diagnostics

    async def run(self, input: WriteInput, room: ToolRoom) -> Outcome:
        rewrite = partial(_whole, input.content)
        apply = partial(self._editor.apply, self.spec.name, create_folders=True)
        change = await write_in_thread(apply, input.file_path, rewrite)
        verb = "Created" if change.is_new else "Replaced"
        outcome = Outcome(f"{verb} {change.path} ({change.lines} lines).", display=change.diff or None)
        return await with_problems(outcome, change.real, self._diagnostics)

    def preview(self, input: WriteInput) -> str | None:
        return self._editor.preview(self.spec.name, input.file_path, partial(_whole, input.content))


def _whole(content: str, before: str | None) -> str:
    return content if before is None or "\r\n" in content else with_newlines_of(before, content)
