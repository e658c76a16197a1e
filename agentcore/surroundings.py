"""What a fresh context of a session begins with besides its task: instruction files, the list of skills, memory.

Looked at once when a context begins, so that its prefix is stable; what changes on disk meanwhile counts for the next.
"""

import anyio.to_thread

from agentcore.events import Notice
from agentcore.instruction_files.reading import read_instructions
from agentcore.instructions import NOTHING_SAID, Said
from agentcore.memory import Memory
from agentcore.skills.finding import find_skills
from agentcore.skills.listing import listing
from agentcore.skills.skill import SkillIndex
from agentcore.within import Places


class Surroundings:
    """Of one session."""

    def __init__(self, places: Places, memory: Memory) -> None:
        self._places = places
        self._memory = memory
        self._index: SkillIndex | None = None
        self.said: Said = NOTHING_SAID
        """For the system prompt of the context that begins."""

    @property
    def index(self) -> SkillIndex:
        """The skills of the context that goes on."""
        return self._index or SkillIndex()

    async def look(self, *, is_fresh: bool, window_tokens: int) -> tuple[Notice, ...]:
        """Look anew where a context begins, or nobody looked yet; return what is wrong with files.

        An interrupted run goes on with the words that its context began with: it needs the skills alone.
        """
        if self._index is not None and not is_fresh:
            return ()
        look = anyio.to_thread.run_sync(self._looked, window_tokens, abandon_on_cancel=True)
        self.said, self._index, told = await look
        return tuple(Notice(level="warning", code="instructions_ignored", text=text) for text in told)

    def _looked(self, window_tokens: int) -> tuple[Said, SkillIndex, tuple[str, ...]]:
        """Changes nothing: a look that was cancelled may come to its end later."""
        instructions, index = read_instructions(self._places), find_skills(self._places)
        skills = listing(index.skills.values(), window_tokens)
        said = Said(instructions=instructions.text, skills=skills, memory=self._memory.index())
        return said, index, (*instructions.notices, *index.notices)
