"""What a fresh context of a session begins with besides its task: instruction files, the lists of skills and
subagents, memory, and what servers of tools say about these.

Looked at once when a context begins, so that its prefix is stable; what changes on disk meanwhile counts for the next.
Skills of folders below, and those for certain files, come with the first such file that a tool works on.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread

from agentcore.events import Notice
from agentcore.instruction_files.reading import Instructions, read_instructions
from agentcore.instructions import NOTHING_SAID, Said, server_says
from agentcore.memory import Memory
from agentcore.ports.tools import ToolError
from agentcore.skills.finding import find_skills, find_skills_in
from agentcore.skills.listing import listing
from agentcore.skills.skill import Skill, SkillIndex
from agentcore.subagents.finding import find_agents
from agentcore.subagents.kinds import AgentIndex
from agentcore.tools.globs import Glob
from agentcore.within import Places

MAX_FOLDERS = 500
"""Below the working folder, that one context looks into for skills: a few system calls each."""


Check = Callable[[Sequence[str]], Awaitable[tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """A context that begins."""

    window_tokens: int
    """How large it is: the list of skills takes a share of it."""
    append: str = ""
    """What the session's creator adds to the system prompt."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """What servers of tools say about the use of these, by name."""


class Surroundings:
    """Of one session."""

    def __init__(self, places: Places, memory: Memory) -> None:
        self._places = places
        self._memory = memory
        self._index: SkillIndex | None = None
        self.agents = AgentIndex()
        """The subagents of the context that goes on."""
        self._told: set[str] = set()
        """Names of the skills that the model was told of with files."""
        self._seen: set[Path] = set()
        """Folders below the working folder that were looked into."""
        self.said: Said = NOTHING_SAID
        """For the system prompt of the context that begins."""

    @property
    def index(self) -> SkillIndex:
        """The skills of the context that goes on."""
        return self._index or SkillIndex()

    async def look(self, fresh: Beginning | None, check: Check) -> tuple[Notice, ...]:
        """Look anew where a context begins, or nobody looked yet; return what is wrong with files.

        An interrupted run goes on with the words that its context began with (`fresh` is None): it needs the skills
        alone. `check` is what the guard makes of texts for the model.
        """
        if self._index is not None and fresh is None:
            return ()
        look = anyio.to_thread.run_sync(self._looked, abandon_on_cancel=True)
        instructions, index, agents, memory = await look
        said, told = NOTHING_SAID, (*instructions.notices, *index.notices, *agents.notices)
        if fresh is not None:
            listed = listing([skill for skill in index.skills.values() if skill.is_listed], fresh.window_tokens)
            said = await _checked(instructions.parts, listed, memory, fresh, check)
        told = await check(told)
        self.said, self._index, self.agents = said, index, agents
        self._told, self._seen = set(), set()
        return tuple(Notice(level="warning", code="instructions_ignored", text=text) for text in told)

    def _looked(self) -> tuple[Instructions, SkillIndex, AgentIndex, str]:
        """Changes nothing: a look that was cancelled may come to its end later."""
        places = self._places
        return read_instructions(places), find_skills(places), find_agents(places), self._memory.index()

    async def come_to(self, file: Path) -> tuple[tuple[Skill, ...], tuple[Notice, ...]]:
        """The session works on a file (resolved): the skills that come with it and that the model does not know yet,
        and what is wrong with them. From now on they can be used."""
        folders = [one for one in file.parents if one != self._places.cwd and one.is_relative_to(self._places.cwd)]
        new = [one for one in reversed(folders) if one not in self._seen][: MAX_FOLDERS - len(self._seen)]
        found = SkillIndex()
        if new:
            found = await anyio.to_thread.run_sync(find_skills_in, new, self._places, abandon_on_cancel=True)
            self._seen.update(new)
        skills = {**found.skills, **self.index.skills}
        self._index = SkillIndex(dict(sorted(skills.items())), self.index.notices)
        nested = [skill for name, skill in found.skills.items() if skills[name] is skill and skill.is_listed]
        meant = [skill for skill in skills.values() if skill.is_for_model and self._is_for(skill, file)]
        told = tuple(skill for skill in (*nested, *meant) if skill.name not in self._told)
        self._told.update(skill.name for skill in told)
        return told, tuple(Notice(level="warning", code="instructions_ignored", text=text) for text in found.notices)

    def _is_for(self, skill: Skill, file: Path) -> bool:
        """Whether a skill names files of this kind. A pattern that is none names nothing."""
        base = skill.origin.base if skill.is_shared and skill.origin.base is not None else self._places.cwd
        if not skill.paths or not file.is_relative_to(base):
            return False
        return any(_is_match(pattern, file.relative_to(base).as_posix()) for pattern in skill.paths)


async def _checked(instructions: Sequence[str], listed: str, memory: str, fresh: Beginning, check: Check) -> Said:
    """What the guard makes of it all: of each file, skill and server by itself, so that one takes no other along."""
    servers, skills = tuple(fresh.servers), listed.split("\n")
    memory, append, *parts = await check((memory, fresh.append, *fresh.servers.values(), *instructions, *skills))
    said, parts = parts[: len(servers)], parts[len(servers) :]
    files, skills = parts[: len(instructions)], parts[len(instructions) :]
    return Said(
        instructions="\n\n".join(files),
        skills="\n".join(skills),
        memory=memory,
        servers="\n\n".join(map(server_says, servers, said)),
        append=append,
    )


def _is_match(pattern: str, path: str) -> bool:
    try:
        return Glob(pattern.removeprefix("/")).matches(path)
    except (ToolError, re.error):
        return False
