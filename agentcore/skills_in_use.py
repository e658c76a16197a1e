"""What the skills that a run uses bring to it, until it ends: rules, hooks, a model and an effort. Of one session.

Nothing of it is kept: after a crash in the middle of a run what its skills forbid is read off the conversation, and
what they allow or ask for is gone. What comes with a repository forbids, and chooses no model; its hooks wait for a
person.
"""

import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import get_args

from agentcore.events import Notice
from agentcore.hooks.room import HookRoom
from agentcore.permissions.grants import Standing
from agentcore.permissions.rulebook import Rulebook, check_allow
from agentcore.permissions.rules import BadRule, Rule, held_widely, parse_rule
from agentcore.settings.choices import Effort
from agentcore.skills.skill import Skill
from agentcore.within import one_line

_EFFORTS = get_args(Effort)
_SAME = "inherit"
"""What other agents call the model that a run has anyway."""


class SkillsInUse:
    """Knows the rules and the hooks of a session, never its run or its agent."""

    def __init__(
        self,
        standing: Standing,
        hooks: HookRoom | None,
        tell: Callable[[Notice], object],
        why_not_model: Callable[[str], str | None],
    ) -> None:
        """`hooks`: None where the user turned all of them off. `why_not_model` says why a model cannot be asked."""
        self._standing = standing
        self._room = None if hooks is None else weakref.ref(hooks)  # its hooks know the tools, and so this
        self._tell = tell
        self._why_not_model = why_not_model
        self._prompt_id: str | None = None
        self._told: set[str] = set()
        self.model: str | None = None
        """What the skills of this run ask for; None: nothing."""
        self.effort: str | None = None

    @property
    def _hooks(self) -> HookRoom | None:
        return None if self._room is None else self._room()

    def begin(self, prompt_id: str) -> bool:
        """The run of a prompt begins or goes on; whether it goes on with what its skills brought it."""
        goes_on = prompt_id == self._prompt_id
        if not goes_on:
            self.end()
            self._prompt_id = prompt_id
        return goes_on

    def end(self) -> None:
        """The run is over, and with it all that its skills brought."""
        self._standing.end_run()
        if (hooks := self._hooks) is not None:
            hooks.end_run()
        self._prompt_id = self.model = self.effort = None
        self._told.clear()

    def take(self, skill: Skill) -> None:
        """A skill is used: it counts for the rest of the run."""
        self._standing.add_for_run(Rulebook(allow=rules_of(skill), deny=self._forbidden_by(skill)))
        self._choose(skill)
        self._hook(skill)
        if skill.is_forked:
            self._say(skill, "is meant for a subagent (`context: fork`, `agent`), and is followed in this run itself.")

    def recall(self, skills: Iterable[Skill]) -> None:
        """A run goes on in another process: what the skills that it used forbid is forbidden."""
        for skill in skills:
            self._standing.add_for_run(Rulebook(deny=self._forbidden_by(skill)))

    # --- inside ---

    def _forbidden_by(self, skill: Skill) -> tuple[Rule, ...]:
        """What cannot be read forbids all that it may have meant."""
        rules: list[Rule] = []
        for text in skill.disallowed_tools:
            try:
                rules.append(parse_rule(text, skill.origin))
            except BadRule as error:
                self._say(skill, f"has a rule in `disallowed-tools` that cannot be read, {one_line(text)}: {error}.")
                rules.append(held_widely(text, skill.origin))
        return tuple(rules)

    def _choose(self, skill: Skill) -> None:
        model, effort = skill.model, skill.effort
        if model == _SAME:
            model = ""
        if skill.is_shared:
            if model or effort:
                self._say(skill, "comes with the repository: it does not choose the model or its effort.")
            return
        if model:
            why = self._why_not_model(model)
            if why is None:
                self.model = model
            else:
                self._say(skill, f"asks for the model {one_line(model)}, which cannot be asked: {why}")
        if effort in _EFFORTS:
            self.effort = effort
        elif effort:
            self._say(skill, f"asks for an effort that is none of {', '.join(_EFFORTS)}: {one_line(effort)}.")

    def _hook(self, skill: Skill) -> None:
        if self._hooks is None or not skill.hooks:
            return
        waiting = self._hooks.add(skill.hooks)
        if waiting:
            what = f"{waiting} {'hook waits' if waiting == 1 else 'hooks wait'}"
            text = f"{what} for approval before it runs (of the skill {skill.name}): see agentcore hooks."
            self._say_once(Notice(level="info", code="approval_needed", text=text))

    def _say(self, skill: Skill, text: str) -> None:
        said = Notice(level="warning", code="skill_ignored", text=f"The skill {skill.name} {text}")
        self._say_once(said)

    def _say_once(self, notice: Notice) -> None:
        """A skill may be used again and again."""
        if notice.text not in self._told:
            self._told.add(notice.text)
            self._tell(notice)


def rules_of(skill: Skill) -> tuple[Rule, ...]:
    """What a skill of the user's own allows while it is used. What is no rule allows nothing."""
    rules: list[Rule] = []
    for text in skill.allowed_tools:
        with suppress(BadRule):
            rule = parse_rule(text, skill.origin)
            check_allow(rule)
            rules.append(rule)
    return tuple(rules)
