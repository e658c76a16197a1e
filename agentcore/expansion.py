"""What a person typed, as the model gets it: a skill that it calls, and the files that it mentions, beside the text.

Assembly of `skills` and `mentions`. What was typed stays word for word, and is what people are shown.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from agentcore.events import Notice, UserMessage
from agentcore.mentions import Mentions
from agentcore.messages import Document, Image, Text
from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import ToolError
from agentcore.skills.expanding import Invocation, SkillAborted, find_invocation
from agentcore.skills.skill import SkillIndex
from agentcore.within import without_tags

_PROMPT = re.compile(r"/(mcp__\S+)(?:\s+(.*))?\Z", re.DOTALL)

PromptBlock: TypeAlias = Text | Image | Document


@dataclass(frozen=True, slots=True)
class Expanded:
    message: UserMessage
    notices: tuple[Notice, ...] = ()


class Expander:
    """Of one session."""

    def __init__(
        self,
        index: Callable[[], SkillIndex],
        expanded: Callable[[Invocation], Awaitable[str]],
        mentions: Mentions,
        servers: Servers = NO_SERVERS,
    ) -> None:
        """`index` is that of the context that goes on. `expanded` raises SkillAborted."""
        self._servers = servers
        self._index = index
        self._expanded = expanded
        self._mentions = mentions

    async def expand(self, message: UserMessage) -> Expanded:
        """Add what a person's message calls and mentions; all its blocks stay. Raises: StorageUnavailable."""
        typed = message.typed_text
        skill, notices = await self._skill(typed)
        if not skill:
            skill, notices = await self._prompt(typed)
        mentioned = await self._mentions.resolve(typed)
        notices += [Notice(level="warning", code="mention_ignored", text=text) for text in mentioned.notices]
        if not mentioned.blocks and not skill:
            return Expanded(message, tuple(notices))
        content = (*mentioned.blocks, *message.content, *skill)
        return Expanded(message.model_copy(update={"content": content, "display_text": typed}), tuple(notices))

    async def _prompt(self, typed: str) -> tuple[list[PromptBlock], list[Notice]]:
        """What comes of a server's prompt that is called at the head of a prompt: `/mcp__server__prompt words`."""
        found = _PROMPT.match(typed)
        if found is None:
            return [], []
        try:
            return [*(await self._servers.prompt(found[1], found[2] or "") or ())], []
        except ToolError as error:
            text = f"The prompt /{found[1]} was not used: {str(error).rstrip('.')}."
            note = Text(text=f"<system-note>\n{without_tags(text, ('system-note',))}\n</system-note>")
            return [note], [Notice(level="warning", code="skill_aborted", text=text)]

    async def _skill(self, typed: str) -> tuple[list[PromptBlock], list[Notice]]:
        """What comes of a skill that is called at the head of a prompt; nothing where none is."""
        invocation = find_invocation(typed, self._index())
        if invocation is None:
            return [], []
        try:
            return [Text(text=await self._expanded(invocation))], []
        except SkillAborted as error:
            note = Text(text=f"<system-note>\n{without_tags(str(error), ('system-note',))}\n</system-note>")
            return [note], [Notice(level="warning", code="skill_aborted", text=str(error))]
