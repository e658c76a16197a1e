"""The skills that an agent's file names: told to its subagents with their task, in words as for any skill.

One that there is not, that a rule forbids or wants asked about, or that only people may call, is left out and told. Its
commands run where the rules of the subagent allow them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentcore.permissions.names import named_word
from agentcore.skilled import SkillUse
from agentcore.skills.expanding import SkillAborted
from agentcore.skills.skill import SkillIndex
from agentcore.within import one_line

MAX_SKILLS = 20
"""Of one agent: each may have up to 128 KiB."""


@dataclass(frozen=True, slots=True)
class Preloaded:
    texts: tuple[str, ...] = ()
    """For the model, in the order of the file."""
    left_out: tuple[str, ...] = ()
    """What is wrong with others, a sentence each."""


async def preloaded(names: Sequence[str], index: SkillIndex, use: SkillUse) -> Preloaded:
    texts, left_out = list[str](), list[str]()
    for name in names[:MAX_SKILLS]:
        skill = index.skills.get(named_word(name))
        if skill is None:
            left_out.append(f"There is no skill {one_line(name, 80)!r}.")
            continue
        try:
            texts.append(await use.at_start(skill))
        except SkillAborted as error:
            left_out.append(str(error))
    if len(names) > MAX_SKILLS:
        left_out.append(f"It names more than {MAX_SKILLS} skills: the others are left out.")
    return Preloaded(tuple(texts), tuple(left_out))
