"""The skills that a conversation used, told again when a summary takes its place. Pure functions over messages."""

import re
from collections.abc import Iterator, Sequence

from agentcore.estimate import CHARS_PER_TOKEN
from agentcore.messages import Message, Text, ToolCall, ToolResult
from agentcore.skills.expanding import TAG

EACH_CHARS = 5_000 * CHARS_PER_TOKEN  # the convention's
TOGETHER_CHARS = 25_000 * CHARS_PER_TOKEN  # the convention's
SHARE_OF_WINDOW = 8
"""One part in so many: of a window of 200,000 tokens that is what the convention says, of a small one it fits."""
TOOL = "skill"
_BEGINNING = re.compile(rf'<{TAG} name="([^"\n]+)"')
_FOLDER = re.compile(rf'<{TAG} name="[^"\n]+" folder="([^"\n]+)">')
_CUT = f"\n[… the rest of the skill is left out here: load it again with the tool `{TOOL}` …]\n</{TAG}>"


def reattached(messages: Sequence[Message], window_tokens: int) -> tuple[Text, ...]:
    """What was said last of each skill, as blocks that follow a summary; the skill that was used last comes last.

    Each is cut to its first part; where they are too much together, those that were used longest ago are left out.
    """
    latest: dict[str, str] = {}
    for name, text in _uses(messages):
        latest.pop(name, None)
        latest[name] = text
    kept: list[Text] = []
    left = min(TOGETHER_CHARS, window_tokens // SHARE_OF_WINDOW * CHARS_PER_TOKEN)
    for text in reversed(latest.values()):
        told = _cut(text, min(EACH_CHARS, left))
        if told is None:
            break
        kept.append(Text(text=told))
        left -= len(told)
    return tuple(reversed(kept))


def used_since(messages: Sequence[Message], message_id: str) -> dict[str, str]:
    """The skills that were used from a message on - in all where that was summarised meanwhile - with their folders as
    they were told."""
    start = next((place for place, message in enumerate(messages) if message.id == message_id), 0)
    return {name: _folder_in(text) for name, text in _uses(messages[start:])}


def _folder_in(text: str) -> str:
    found = _FOLDER.match(text)
    return "" if found is None else found[1]


def _uses(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Name and text of each use, in order."""
    blocks = [(message.role, block) for message in messages for block in message.content]
    loads = {block.id for _, block in blocks if isinstance(block, ToolCall) and block.name == TOOL}
    for role, block in blocks:
        text = ""
        if isinstance(block, ToolResult) and block.call_id in loads and not block.is_error:
            text = block.content
        elif isinstance(block, Text) and role == "user":
            text = block.text
        if (found := _BEGINNING.match(text)) is not None:
            yield found[1], text


def _cut(text: str, limit: int) -> str | None:
    """None where there is no room for anything of use."""
    if len(text) <= limit:
        return text
    room = limit - len(_CUT)
    return text[:room] + _CUT if room >= len(_CUT) else None
