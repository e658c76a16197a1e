"""The tool `memory`: notes that outlive the session, about the project and about the user."""

from typing import Literal

from pydantic import Field, model_validator

from agentcore.memory import MAX_NOTE_CHARS, TITLES, Memory, NoteScope, Refused
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.inputs import Plain
from agentcore.tools.threads import read_in_thread, write_in_thread
from agentcore.values import Value

_NEEDS: dict[str, tuple[str, ...]] = {"view": (), "add": ("note",), "replace": ("old", "note"), "remove": ("old",)}


class MemoryInput(Value):
    action: Literal["view", "add", "replace", "remove"] = Field(description="What to do with the notes.")
    scope: NoteScope = Field(default="project", description="Notes about this project, or about the user everywhere.")
    note: Plain | None = Field(
        default=None,
        max_length=MAX_NOTE_CHARS,
        description="With add and replace: the note, a sentence or two that will be true next month as well.",
    )
    old: Plain | None = Field(
        default=None,
        max_length=MAX_NOTE_CHARS,
        description="With replace and remove: words that only the note in question has.",
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "MemoryInput":
        missing = [name for name in _NEEDS[self.action] if not (getattr(self, name) or "").strip()]
        if missing:
            raise ValueError(f"{self.action} needs {' and '.join(missing)}")
        return self


class MemoryTool:
    spec = ToolSpec(
        name="memory",
        description=(
            "Notes that outlive this session: how the project is built and tested, what was decided, how the user "
            "likes to work. Keep what would have saved you work; no secrets, nothing that the code itself says. The "
            "beginning of the notes stands in your instructions."
        ),
        input=MemoryInput,
        read_only_actions=frozenset({"view"}),
    )

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def run(self, input: MemoryInput, room: ToolRoom) -> Outcome:
        try:
            if input.action == "view":
                return Outcome(await read_in_thread(self._viewed, input.scope))
            await write_in_thread(self._change, input)
        except Refused as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(f"The notes cannot be written: {error.strerror or 'the disk refused'}.") from error
        return Outcome(f"Done: the {input.scope} notes are kept. You see the change with the next session.")

    def preview(self, input: MemoryInput) -> str | None:
        lines = [
            f"- {line}" for line in (input.old or "").split("\n") if line and input.action in ("replace", "remove")
        ]
        lines += [f"+ {line}" for line in (input.note or "").split("\n") if line and input.action in ("add", "replace")]
        return "\n".join(lines) or None

    def _viewed(self, scope: NoteScope) -> str:
        notes = self._memory.notes(scope)
        if not notes:
            return f"There are no {scope} notes yet."
        return "\n".join([TITLES[scope], *(f"- {note}" for note in notes)])

    def _change(self, input: MemoryInput) -> None:
        match input.action:
            case "add":
                self._memory.add(input.scope, input.note or "")
            case "replace":
                self._memory.replace(input.scope, input.old or "", input.note or "")
            case _:
                self._memory.remove(input.scope, input.old or "")
