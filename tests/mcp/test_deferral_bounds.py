"""From when on tools of servers are told by the two that stand for all of them: above 30 tools, or 6,000 tokens."""

import pytest

from agentcore.mcp.toolset import _are_many
from agentcore.ports.models import ToolDefinition


@pytest.mark.parametrize(
    ("count", "chars", "are_many"),
    [
        (30, 10, False),
        (31, 10, True),
        (1, 4 * 5_800, False),
        (1, 4 * 6_100, True),
        (20, 4 * 250, False),
        (20, 4 * 320, True),
    ],
)
def test_the_bounds(count: int, chars: int, *, are_many: bool) -> None:
    """`chars` of description each; four are a token."""
    tools = [ToolDefinition(name=f"t{number}", description="x" * chars, input_schema={}) for number in range(count)]
    assert _are_many(tools) is are_many
