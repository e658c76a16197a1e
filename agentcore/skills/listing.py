"""The skills that a model is told of, in the system prompt: names and what they are for, within a budget."""

from collections.abc import Iterable

from agentcore.estimate import CHARS_PER_TOKEN
from agentcore.skills.skill import Skill

MAX_DESCRIPTION_CHARS = 1_536  # the convention's, with `when_to_use`
SHARE_OF_WINDOW = 0.01  # the convention's
_SHORTEST = 20
"""Characters of a description below which the name alone says as much."""


def listing(skills: Iterable[Skill], window_tokens: int) -> str:
    """A line for each that the model may load, sorted; empty where there is none.

    Where the window has no room for all of it, the longest descriptions are cut first, then the last names.
    """
    told = sorted((skill.name, _about(skill)) for skill in skills if skill.is_for_model)
    budget = max(0, int(window_tokens * SHARE_OF_WINDOW)) * CHARS_PER_TOKEN
    names = sum(len(name) + len("- : \n") for name, _ in told)
    limit = _limit([len(about) for _, about in told], budget - names)
    lines = [f"- {name}: {_cut(about, limit)}" if about and limit else f"- {name}" for name, about in told]
    kept, size = [], 0
    for line in lines:
        size += len(line) + 1
        if limit == 0 and size > budget:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*kept, *([f"({left} more have no room here: the user can name them)"] if left else [])])


def _about(skill: Skill) -> str:
    return _cut(" ".join(filter(None, (skill.description, skill.when_to_use))), MAX_DESCRIPTION_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _limit(lengths: list[int], budget: int) -> int:
    """The largest bound for each under which all fit together; 0 where no useful one does."""
    if sum(lengths) <= budget:
        return MAX_DESCRIPTION_CHARS
    left, many = budget, len(lengths)
    for length in sorted(lengths):
        if length * many > left:
            limit = left // many
            return limit if limit >= _SHORTEST else 0
        left, many = left - length, many - 1
    return MAX_DESCRIPTION_CHARS
