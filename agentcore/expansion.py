"""What a person typed, as the model gets it: a skill that it calls, and the files that it mentions, beside the text.

Assembly of `skills` and `mentions`. What was typed stays word for word, and is what people are shown.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentcore.events import Notice, UserMessage
from agentcore.mentions import Mentions
from agentcore.messages import Text
from agentcore.skills.expanding import Invocation, SkillAborted, find_invocation
from agentcore.skills.skill import SkillIndex
from agentcore.within import without_tags


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
    ) -> None:
        """`index` is that of the context that goes on. `expanded` raises SkillAborted."""
        self._index = index
        self._expanded = expanded
        self._mentions = mentions

    async def expand(self, message: UserMessage) -> Expanded:
        """Add what a person's message calls and mentions; all its blocks stay. Raises: StorageUnavailable."""
        typed = message.typed_text
        skill, notices = await self._skill(typed)
        mentioned = await self._mentions.resolve(typed)
        notices += [Notice(level="warning", code="mention_ignored", text=text) for text in mentioned.notices]
        if not mentioned.blocks and not skill:
            return Expanded(message, tuple(notices))
        content = (*mentioned.blocks, *message.content, *skill)
        return Expanded(message.model_copy(update={"content": content, "display_text": typed}), tuple(notices))

    async def _skill(self, typed: str) -> tuple[list[Text], list[Notice]]:
        """What comes of a skill that is called at the head of a prompt; nothing where none is."""
        invocation = find_invocation(typed, self._index())
        if invocation is None:
            return [], []
        try:
            return [Text(text=await self._expanded(invocation))], []
        except SkillAborted as error:
            note = Text(text=f"<system-note>\n{without_tags(str(error), ('system-note',))}\n</system-note>")
            return [note], [Notice(level="warning", code="skill_aborted", text=str(error))]
