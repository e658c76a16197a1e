"""Two tools in the place of very many: one finds those of the servers, the other calls one of them.

What the model is told of these two never changes with the servers, so the beginning of its requests does not. A call
through `call_tool` is, for the gate, the hooks and everybody who watches, the call of the tool that it names
(`ToolSpec.calls_another`); its `run` is only reached when it names none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, JsonValue
from pydantic_core import to_json

from agentcore.mcp.names import PREFIX
from agentcore.ports.tools import Outcome, Tool, ToolError, ToolRoom, ToolSpec
from agentcore.values import Value

TOOL_SEARCH, CALL_TOOL = "tool_search", "call_tool"
MAX_FOUND = 20
MAX_DESCRIPTION_CHARS = 1_000
_WORD = re.compile(r"[a-z0-9]+")


class SearchInput(Value):
    query: Annotated[str, Field(min_length=1, max_length=500, description="Words, or a tool's whole name.")]
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND, description="How many to show at most.")] = 5


class CallInput(Value):
    name: Annotated[str, Field(min_length=1, max_length=200, description="The tool, as tool_search gave it.")]
    input: dict[str, JsonValue] = Field(default={}, description="Its input, by its schema.")


class ToolSearch:
    """Satisfies the Tool port."""

    def __init__(self, tools: Callable[[], Mapping[str, Tool]], servers: Sequence[str]) -> None:
        """`servers` are named to the model: they are what it can expect to find something of."""
        self._tools = tools
        self.spec = ToolSpec(
            name=TOOL_SEARCH,
            description=(
                f"Find tools of the connected servers ({', '.join(servers)}), which are too many to be listed: gives"
                f" name, description and input schema of those that fit best. Run one with {CALL_TOOL}."
            ),
            input=SearchInput,
            read_only=True,
            parallel_safe=True,
        )

    async def run(self, input: SearchInput, room: ToolRoom) -> Outcome:
        found = ranked(input.query, self._tools())[: input.limit]
        if not found:
            raise ToolError("No tool fits. Use other words, or name the server.")
        return Outcome("\n\n".join(_told(tool) for tool in found))

    def preview(self, input: SearchInput) -> str | None:
        return None


class CallTool:
    """Satisfies the Tool port."""

    spec = ToolSpec(
        name=CALL_TOOL,
        description=f"Run a tool that {TOOL_SEARCH} found, with an input that fits its schema.",
        input=CallInput,
        read_only=True,  # itself it does nothing; what it names is judged for itself
        calls_another=True,
    )

    async def run(self, input: CallInput, room: ToolRoom) -> Outcome:
        raise ToolError(f"{CALL_TOOL} runs tools whose name begins with {PREFIX}. Call {input.name[:64]} by itself.")

    def preview(self, input: CallInput) -> str | None:
        return None


def ranked(query: str, tools: Mapping[str, Tool]) -> list[Tool]:
    """Those that have something of the query, best first: a whole name, then words of names before descriptions."""
    words = set(_WORD.findall(query.lower()))
    scored = []
    for name, tool in tools.items():
        in_name, in_text = set(_WORD.findall(name.lower())), set(_WORD.findall(tool.spec.description.lower()))
        score = 1_000 * (name in query) + 3 * len(words & in_name) + len(words & in_text)
        score += sum(word in name.lower() for word in words if len(word) > 2)
        if score:
            scored.append((-score, name))
    return [tools[name] for _, name in sorted(scored)]


def _told(tool: Tool) -> str:
    spec = tool.spec
    schema = to_json(spec.definition().input_schema).decode(errors="replace")
    return f"{spec.name}\n{spec.description[:MAX_DESCRIPTION_CHARS]}\ninput: {schema}"
