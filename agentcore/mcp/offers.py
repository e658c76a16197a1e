"""What a server offers, as this server understands it: made once for all sessions when the server has listed it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentcore.caps import safe_text
from agentcore.mcp.listed import LeftOut
from agentcore.mcp.schemas import BadSchema, input_of
from agentcore.schema_input import Model
from agentcore.within import plain_text

if TYPE_CHECKING:
    import mcp_types as types

MAX_SCHEMAS_BYTES = 4 * 1024 * 1024
"""Of all tools of a server together; reading more would hold others up."""
MAX_DESCRIPTION_CHARS = 4_000
MAX_INSTRUCTIONS_CHARS = 2_000
MAX_NAME_CHARS = 128
MAX_ARGUMENTS = 20
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    """As the server calls it."""
    description: str
    input: Model
    read_only: bool


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    name: str
    arguments: tuple[str, ...]
    """In their order."""
    required: frozenset[str]


@dataclass(frozen=True, slots=True)
class Offer:
    """All of it."""

    tools: tuple[OfferedTool, ...] = ()
    """Sorted by name, each name once."""
    prompts: Mapping[str, OfferedPrompt] = field(default_factory=dict)
    instructions: str = ""
    """What the server says about the use of its tools."""
    left_out: tuple[str, ...] = ()
    """A sentence for each tool and prompt that cannot be used."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)


NOTHING = Offer()


def offer_of(
    tools: "Sequence[types.Tool]",
    prompts: "Sequence[types.Prompt]",
    instructions: str = "",
    refused: Sequence[LeftOut] = (),
) -> Offer:
    """Read what a server has listed, without what was `refused` of it. Slow for many: a worker's work."""
    found: dict[str, OfferedTool] = {}
    left_out = [_left_out(one) for one in refused]
    left_bytes = MAX_SCHEMAS_BYTES
    for tool in tools:
        name = tool.name[:MAX_NAME_CHARS]
        try:
            if not tool.name or len(tool.name) > MAX_NAME_CHARS or safe_text(tool.name) != tool.name:
                raise BadSchema("its name is none")
            left_bytes -= len(repr(tool.input_schema))
            if left_bytes < 0:
                raise BadSchema("the server describes too much")
            found.setdefault(name, _tool(tool))
        except BadSchema as error:
            left_out.append(_left_out(LeftOut("tool", name, str(error))))
    return Offer(
        tools=tuple(sorted(found.values(), key=lambda one: one.name)),
        prompts={prompt.name: _prompt(prompt) for prompt in prompts if len(prompt.name) <= MAX_NAME_CHARS},
        instructions=_cut(plain_text(instructions).strip(), MAX_INSTRUCTIONS_CHARS),
        left_out=tuple(left_out),
    )


def _left_out(one: LeftOut) -> str:
    which = f"A {one.kind} without a name" if one.name is None else f"The {one.kind} {_line(one.name)!r}"
    return f"{which} is left out: {plain_text(one.why)[:300]}."


def _tool(tool: "types.Tool") -> OfferedTool:
    hints = tool.annotations
    text = safe_text(tool.description or tool.title or tool.name)
    return OfferedTool(
        name=tool.name,
        description=_cut(text, MAX_DESCRIPTION_CHARS),
        input=input_of(tool.input_schema),
        read_only=hints is not None and hints.read_only_hint is True and hints.open_world_hint is not True,
    )


def _prompt(prompt: "types.Prompt") -> OfferedPrompt:
    arguments = (prompt.arguments or [])[:MAX_ARGUMENTS]
    return OfferedPrompt(
        name=prompt.name,
        arguments=tuple(one.name for one in arguments),
        required=frozenset(one.name for one in arguments if one.required),
    )


def _cut(text: str, limit_chars: int) -> str:
    return text if len(text) <= limit_chars else f"{text[:limit_chars]} […]"


def _line(text: str) -> str:
    return _SPACES.sub(" ", safe_text(text))[:80]
