"""Notices when a subagent goes in circles: the same calls with the same results, again and again.

Nobody watches a subagent, so what a person would see and stop has to be seen here.
"""

import hashlib
from collections import deque
from collections.abc import Sequence

from pydantic_core import to_json

from agentcore.messages import ToolCall, ToolResult

WITHIN_TURNS = 8  # the contract's, as is the next
MAX_REPEATS = 4


class Circles:
    """Of one subagent."""

    def __init__(self) -> None:
        self._seen: deque[bytes] = deque(maxlen=WITHIN_TURNS)

    def is_closed_by(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        """Whether the calls of a turn, with what they came to, have now been made too often."""
        said = [(call.name, call.input, result.content, result.is_error) for call, result in results]
        print_ = hashlib.sha256(to_json(sorted(map(to_json, said)))).digest()
        self._seen.append(print_)
        return self._seen.count(print_) >= MAX_REPEATS
