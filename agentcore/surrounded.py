"""What a session is told besides its task, put together: skills, mentions, memory, instruction files.

Nothing that is made here knows the agent: a closed session is freed without the collector.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentcore.expansion import Expander
from agentcore.memory import Memory, NoteScope
from agentcore.mentions import Mentions, may_read_by
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.workspace import Workspace
from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import Tool
from agentcore.sessions.store import OpenSession, project_of
from agentcore.skilled import SkillUse
from agentcore.skills.skill import SkillIndex
from agentcore.skills_in_use import SkillsInUse
from agentcore.surroundings import Surroundings
from agentcore.tools.memory import MemoryTool
from agentcore.tools.skill import SkillTool
from agentcore.within import Places


@dataclass(frozen=True, slots=True)
class Surrounded:
    surroundings: Surroundings
    expander: Expander
    tools: tuple[Tool, ...]
    """`skill` and `memory`."""


def surrounded(
    session: OpenSession,
    places: Places,
    workspace: Workspace,
    gate: SessionGate,
    tools: Mapping[str, Tool],
    in_use: SkillsInUse,
    *,
    memory_folder: Path,
    secrets: frozenset[str],
    environ: Mapping[str, str],
    servers: Servers = NO_SERVERS,
) -> Surrounded:
    """For one session. `tools` are its others: a skill's commands and what is mentioned pass them and their gate."""
    folders: dict[NoteScope, Path] = {
        "project": memory_folder / project_of(workspace.cwd),
        "user": memory_folder / "user",
    }
    memory = Memory(folders, tuple(secrets))
    surroundings = Surroundings(places, memory)
    index = _index_of(surroundings)
    use = SkillUse(session.id, lambda: session.history.settings, workspace, gate, tools["bash"], in_use)
    mentions = Mentions(workspace, session.blobs, environ, may_read_by(gate, tools["read"]), servers)
    own = (SkillTool(index, use.by_model), MemoryTool(memory))
    return Surrounded(surroundings, Expander(index, use.by_user, mentions, servers), own)


def _index_of(surroundings: Surroundings) -> Callable[[], SkillIndex]:
    return lambda: surroundings.index
