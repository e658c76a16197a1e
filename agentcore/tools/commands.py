"""Command tools: commands of the user's own that the model may call like any tool (`[[tools]]` in his settings).

A command runs without a shell and without secrets, in the working folder, bounded and ended as `bash` is. Its argv is
a template: `{field}` stands for a field of the input, and whatever the model puts there stays one argument, and never
becomes an option: where the template says nothing before it, a value may begin with a dash only behind a `--`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from agentcore.environment import command_environ
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.processes import Command
from agentcore.schema_input import SchemaInput, schema_input
from agentcore.settings.command_tools import CommandTool
from agentcore.tools.bash import DEFAULT_TIMEOUT_MS, run_command

CONFIRM = "confirm"
"""Tag: a person is asked about each call, whatever the mode and the rules say."""
READ_ONLY = "read-only"
"""Tag: it changes nothing, so it runs without asking."""
_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


class RunsCommand:
    """The tool that a `CommandTool` describes."""

    def __init__(
        self,
        declared: CommandTool,
        workspace: Workspace,
        environ: Mapping[str, str],
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Raises: ValueError, with a sentence, for a declaration that cannot be used."""
        _check_template(declared)
        self._argv = declared.argv
        self._workspace = workspace
        self._environ = command_environ(environ)
        self._checkpoints = checkpoints
        self.spec = ToolSpec(
            name=declared.name,
            description=declared.description,
            input=schema_input(declared.input_schema),
            read_only=READ_ONLY in declared.tags,
            timeout_s=None,  # it keeps its own
            asks="tool" if CONFIRM in declared.tags else None,
        )

    async def run(self, input: SchemaInput, room: ToolRoom) -> Outcome:
        argv = filled(self._argv, input.root)
        command = Command(argv, self._workspace.cwd, self._environ)
        return await run_command(command, DEFAULT_TIMEOUT_MS, room, self._checkpoints)

    def preview(self, input: SchemaInput) -> str | None:
        """The command as it would run, one argument a line."""
        try:
            return "\n".join(filled(self._argv, input.root))
        except ToolError:
            return None


def filled(template: Sequence[str], input: Mapping[str, Any]) -> list[str]:
    """The argv of a call. An argument whose field was left out is left out as a whole. Raises: ToolError."""
    argv: list[str] = []
    may_have_dash = False
    for item in template:
        fields = _FIELD.findall(item)
        if any(input.get(field) is None for field in fields):
            continue
        argument = _FIELD.sub(lambda found: _text(input[found[1]]), item)
        if "\0" in argument:
            raise ToolError(f"{', '.join(fields)} contains a NUL, which no argument can")
        if argument.startswith("-") and not (item.startswith("-") or may_have_dash):
            raise ToolError(f"{fields[0]} must not begin with a dash: it would be taken as an option")
        may_have_dash = may_have_dash or item == "--"
        argv.append(argument)
    return argv


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _check_template(declared: CommandTool) -> None:
    """Raises: ValueError."""
    if not declared.argv or not declared.argv[0] or _FIELD.search(declared.argv[0]):
        raise ValueError("`argv` begins with the program itself, without a {field}")
    known = declared.input_schema.get("properties", {})
    named = {field for item in declared.argv for field in _FIELD.findall(item)}
    if unknown := sorted(named - set(known if isinstance(known, Mapping) else ())):
        raise ValueError(f"`argv` names {{{unknown[0]}}}, which `schema` does not have among its properties")
