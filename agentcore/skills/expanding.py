"""A skill that is used: its body read, its places filled, its commands run, and the whole in words for the model.

A command in a body (`` !`git status` ``) never makes anybody ask: it runs where the permission rules allow it already,
and otherwise the skill is not used at all, since leaving a piece out would change what it says. What a command prints,
and what arguments hold, is text: no place in it is filled and no command in it is run.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentcore.caps import cap_output
from agentcore.ports.tools import ToolError
from agentcore.skills.arguments import Filler, Given, with_arguments
from agentcore.skills.frontmatter import BadHead, split
from agentcore.skills.skill import Skill, SkillIndex
from agentcore.within import Unfit, attribute, one_line, plain_text, read_within, without_tags

MAX_COMMANDS = 20
"""Of one skill; they run one after another."""
TAG = "skill"
_INLINE = re.compile(r"(?<!\S)!`([^`]+)`")
_FENCE, _FENCE_END = "```!", "```"
_HEAD_OF_PROMPT = re.compile(r"/([^\s/]+)(?:\s+(.*))?\Z", re.DOTALL)
_BODY = """\
<{tag} name="{name}" folder="{folder}">
{intro} Paths in it are meant from the folder {folder}.

{body}
</{tag}>"""


class SkillAborted(Exception):
    """A skill was not used; `str(error)` is a sentence that names it and says why."""


@dataclass(frozen=True, slots=True)
class Invocation:
    skill: Skill
    arguments: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What a skill is used in."""

    session: str
    effort: str
    project: Path
    """The session's working folder, resolved."""
    shown: Callable[[Path], str]
    """A real path as the model should see it."""
    may_run: Callable[[Skill, str], Awaitable[bool]]
    """Whether the permission rules allow a skill's shell line without asking anybody."""
    run: Callable[[str], Awaitable[str]]
    """Run a shell line that may run, and return what it printed. Raises: ToolError."""
    read: Callable[[Skill], Awaitable[str]]
    """The text of a skill's file: `read_text` in a worker. Raises: SkillAborted."""


def find_invocation(text: str, index: SkillIndex) -> Invocation | None:
    """The skill that a prompt calls by `/name` at its head; None where it is only text (`/usr/bin` is)."""
    found = _HEAD_OF_PROMPT.match(text)
    skill = None if found is None else index.skills.get(found[1])
    if found is None or skill is None or not skill.is_for_user:
        return None
    return Invocation(skill, (found[2] or "").strip())


def read_text(skill: Skill) -> str:
    """The body of a skill as it is on disk now. Blocks. Raises: SkillAborted."""
    try:
        found = read_within(skill.file, skill.bounds)
        body = None if found is None else split(found.text)[1]
    except Unfit as error:
        raise SkillAborted(f"The skill {skill.name} was not used: its file {error}.") from None
    except BadHead as error:
        raise SkillAborted(f"The skill {skill.name} was not used: {error} (line {error.line}).") from None
    if body is None:
        raise SkillAborted(f"The skill {skill.name} was not used: its file is gone.")
    return body.strip()


async def expanded(invocation: Invocation, scene: Scene, *, by_user: bool) -> str:
    """What the model is told. Raises: SkillAborted."""
    skill = invocation.skill
    body = await scene.read(skill)
    filler = Filler(Given(invocation.arguments, skill.arguments, _facts(skill, scene)))
    pieces: list[str] = []
    end = 0
    for number, (start, behind, command) in enumerate(_commands(body, skill)):
        if number == MAX_COMMANDS:
            raise SkillAborted(f"The skill {skill.name} was not used: it runs more than {MAX_COMMANDS} commands.")
        pieces.append(filler.filled(body[end:start]))
        pieces.append(await _output(filler.filled(command.strip()), skill, scene))
        end = behind
    pieces.append(filler.filled(body[end:]))
    return _told(invocation, with_arguments("".join(pieces), filler), scene, by_user=by_user)


def _commands(body: str, skill: Skill) -> Iterator[tuple[int, int, str]]:
    """Where the commands of a body stand (start, end), and what they are, in order. Raises: SkillAborted."""
    start, block, inside = 0, 0, -1
    for line in body.split("\n"):
        end = start + len(line)
        if inside < 0 and line.rstrip() == _FENCE:
            block, inside = start, end + 1
        elif inside < 0:
            yield from ((start + found.start(), start + found.end(), found[1]) for found in _INLINE.finditer(line))
        elif line.rstrip() == _FENCE_END:
            yield block, end, body[inside:start]
            inside = -1
        start = end + 1
    if inside >= 0:
        raise SkillAborted(f"The skill {skill.name} was not used: a block of commands in it has no end.")


def _told(invocation: Invocation, text: str, scene: Scene, *, by_user: bool) -> str:
    name = invocation.skill.name
    intro = f"The user called the skill /{name}: follow it." if by_user else f"This is the skill {name}: follow it."
    folder = attribute(scene.shown(invocation.skill.file.parent))
    return _BODY.format(tag=TAG, name=attribute(name), folder=folder, intro=intro, body=without_tags(text, (TAG,)))


async def _output(command: str, skill: Skill, scene: Scene) -> str:
    """Raises: SkillAborted."""
    shown = one_line(command)
    if not await scene.may_run(skill, command):
        raise SkillAborted(
            f"The skill {skill.name} was not used: it runs `{shown}`, which no permission rule allows. Allow the"
            " command with a rule, or leave the skill out."
        )
    try:
        text = await scene.run(command)
    except ToolError as error:
        raise SkillAborted(f"The skill {skill.name} was not used: its command `{shown}` failed: {error}") from None
    return cap_output(plain_text(text).rstrip("\n"))[0]


def _facts(skill: Skill, scene: Scene) -> Mapping[str, str]:
    return {
        "CLAUDE_SESSION_ID": scene.session,
        "CLAUDE_EFFORT": scene.effort,
        "CLAUDE_SKILL_DIR": str(skill.file.parent),
        "CLAUDE_PROJECT_DIR": str(scene.project),
    }
