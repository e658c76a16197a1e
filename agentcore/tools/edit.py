"""The tools `edit` and `multi_edit`: exact replacements in a file that the model has read; all of them or none."""

from functools import partial

from pydantic import Field

from agentcore.ports.diagnostics import Diagnostics
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.code import with_problems
from agentcore.tools.editor import Change, FileEditor
from agentcore.tools.inputs import Plain
from agentcore.tools.matching import replace_text
from agentcore.tools.threads import write_in_thread
from agentcore.values import Value

MAX_EDITS = 200


class Target(Value):
    file_path: Plain = Field(description="File to change: absolute, or relative to the working directory.")


class Replacement(Value):
    old_string: Plain = Field(
        min_length=1, description="Exact text to replace, indentation included, without line numbers."
    )
    new_string: Plain = Field(description="Text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence; else there must be exactly one.")


class EditInput(Replacement, Target):  # in this order the path comes first in the schema
    pass


class MultiEditInput(Target):
    edits: tuple[Replacement, ...] = Field(
        min_length=1,
        max_length=MAX_EDITS,
        description="Replacements, made in this order, each in the result of those before it.",
    )


class EditTool:
    spec = ToolSpec(
        name="edit",
        description=(
            "Replace an exact string in a text file that was read in this session. "
            "old_string must be found exactly once, unless replace_all is set."
        ),
        input=EditInput,
        edits=True,
        paths=("file_path",),
    )

    def __init__(self, editor: FileEditor, diagnostics: Diagnostics | None = None) -> None:
        """Without `diagnostics` nothing is said about what is wrong in the file afterwards."""
        self._editor = editor
        self._diagnostics = diagnostics

    async def run(self, input: EditInput, room: ToolRoom) -> Outcome:
        rewrite = partial(_edited, (input,))
        change = await write_in_thread(self._editor.apply, self.spec.name, input.file_path, rewrite)
        return await with_problems(_told(change), change.real, self._diagnostics)

    def preview(self, input: EditInput) -> str | None:
        rewrite = partial(_edited, (input,), is_hinted=False)
        return self._editor.preview(self.spec.name, input.file_path, rewrite)


class MultiEditTool:
    spec = ToolSpec(
        name="multi_edit",
        description=(
            "Make several exact replacements in one text file that was read in this session; "
            "if one of them fails, none is made."
        ),
        input=MultiEditInput,
        edits=True,
        paths=("file_path",),
    )

    def __init__(self, editor: FileEditor, diagnostics: Diagnostics | None = None) -> None:
        """Without `diagnostics` nothing is said about what is wrong in the file afterwards."""
        self._editor = editor
        self._diagnostics = diagnostics

    async def run(self, input: MultiEditInput, room: ToolRoom) -> Outcome:
        rewrite = partial(_edited, input.edits)
        change = await write_in_thread(self._editor.apply, self.spec.name, input.file_path, rewrite)
        return await with_problems(_told(change), change.real, self._diagnostics)

    def preview(self, input: MultiEditInput) -> str | None:
        rewrite = partial(_edited, input.edits, is_hinted=False)
        return self._editor.preview(self.spec.name, input.file_path, rewrite)


def _edited(edits: tuple[Replacement, ...], before: str | None, *, is_hinted: bool = True) -> str:
    if before is None:
        raise FileNotFoundError
    text = before
    for number, edit in enumerate(edits, start=1):
        try:
            text = replace_text(
                text, edit.old_string, edit.new_string, everywhere=edit.replace_all, is_hinted=is_hinted
            )
        except ToolError as error:
            if len(edits) == 1:
                raise
            raise ToolError(f"Edit {number} of {len(edits)} failed, nothing was changed: {error}") from error
    return text


def _told(change: Change) -> Outcome:
    return Outcome(f"Edited {change.path} ({change.lines} lines).", display=change.diff)
