"""A permission rule as text and value: `Tool` or `Tool(spec)`.

At this stage a spec matches exactly: the whole command of `Bash(…)`, the whole path of `Edit(…)`. Nothing is ever
allowed by a rule that is not understood.
"""

import re
from dataclasses import dataclass

from agentcore.messages import ToolCall

_RULE = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)

# The field that a rule's spec is compared with, by tool.
_SUBJECT = {
    "bash": "command",
    "read": "file_path",
    "write": "file_path",
    "edit": "file_path",
    "multi_edit": "file_path",
}
# The spelling that users' files know; others are written as they are.
_SPELLING = {"bash": "Bash", "read": "Read", "write": "Write", "edit": "Edit", "multi_edit": "MultiEdit"}


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    """Native name, lower case."""
    spec: str | None = None

    def matches(self, call: ToolCall) -> bool:
        if self.tool != call.name:
            return False
        if self.spec is None:
            return True
        return self.spec == subject_of(call)

    def __str__(self) -> str:
        name = _SPELLING.get(self.tool, self.tool)
        return name if self.spec is None else f"{name}({self.spec})"


def parse_rule(text: str) -> Rule | None:
    """Read a rule; None when the text is none."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        return None
    names = {spelling.lower(): native for native, spelling in _SPELLING.items()}
    return Rule(names.get(match[1].lower(), match[1].lower()), match[2])


def subject_of(call: ToolCall) -> str | None:
    """What a rule's spec is compared with: the command, the path."""
    value = (call.input or {}).get(_SUBJECT.get(call.name, ""))
    return value if isinstance(value, str) else None


def narrowest_rule(call: ToolCall) -> Rule:
    """The rule that would allow this call and as little else as possible."""
    return Rule(call.name, subject_of(call))
