"""The skills of one session, put together with what they need: its rules, its shell, its settings.

Nothing that is made here knows the agent: a closed session is freed without the collector.
"""

import weakref
from collections.abc import Callable

import anyio.to_thread

from agentcore.messages import ToolCall
from agentcore.permissions.decision import Outlook
from agentcore.permissions.facts import facts_about
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.matching import Subject, is_allowed
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Deferred, Tool, ToolError, ToolRoom
from agentcore.session import Settings
from agentcore.skills.expanding import Invocation, Scene, SkillAborted, expanded, read_text
from agentcore.skills.skill import Skill
from agentcore.skills_in_use import SkillsInUse, rules_of
from agentcore.tools.skill import SkillTool

_EXIT_OK = "\n[exit code 0]"
_NO_OUTPUT = "(no output)"


class SkillUse:
    """Turns invocations into words for the model, in the name of one session."""

    def __init__(
        self,
        session: str,
        settings: Callable[[], Settings],
        workspace: Workspace,
        gate: SessionGate,
        bash: Tool | None,
        in_use: SkillsInUse,
    ) -> None:
        """`bash` runs the commands of skills, as it runs those of the model; without it such a skill is not used."""
        self._session = session
        self._settings = settings
        self._workspace = workspace
        self._gate = weakref.ref(gate)  # it knows the tools, and so this
        self._bash = bash
        self._in_use = in_use

    async def by_user(self, invocation: Invocation) -> str:
        """Raises: SkillAborted."""
        return await self._used(invocation, by_user=True)

    async def by_model(self, invocation: Invocation) -> str:
        """Raises: SkillAborted."""
        return await self._used(invocation, by_user=False)

    async def at_start(self, skill: Skill) -> str:
        """As by the model, where that may without a question. Raises: SkillAborted."""
        if not skill.is_for_model:
            raise SkillAborted(f"The skill {skill.name} was not used: only people may call it.")
        if not await anyio.to_thread.run_sync(self._may_begin_with, skill):
            raise SkillAborted(
                f"The skill {skill.name} was not used: a permission rule forbids it or would have asked."
            )
        return await self.by_model(Invocation(skill, ""))

    def _may_begin_with(self, skill: Skill) -> bool:
        gate, call = self._gate(), ToolCall(id="skill", name="skill", input={"name": skill.name})
        return gate is not None and gate.judge(call, SkillTool.spec).outlook is Outlook.ALLOW

    async def _used(self, invocation: Invocation, *, by_user: bool) -> str:
        """Raises: SkillAborted."""
        text = await expanded(invocation, self._scene(), by_user=by_user)
        self._in_use.take(invocation.skill)
        return text

    def _scene(self) -> Scene:
        return Scene(
            session=self._session,
            effort=self._settings().effort or "",
            project=self._workspace.cwd,
            shown=self._workspace.shown,
            may_run=self._may_run,
            run=self._run,
            read=_read,
        )

    async def _may_run(self, skill: Skill, command: str) -> bool:
        return await anyio.to_thread.run_sync(self._is_allowed, skill, command)

    def _is_allowed(self, skill: Skill, command: str) -> bool:
        """By the session's rules; what no rule speaks of, also by those that the user wrote into a skill of his own."""
        gate, bash = self._gate(), self._bash
        if gate is None or bash is None:
            return False
        call, spec = ToolCall(id="skill", name="bash", input={"command": command}), bash.spec
        opinion = gate.judge(call, spec)
        if opinion.outlook is Outlook.ALLOW:
            return True
        if opinion.outlook is Outlook.DENY or not opinion.is_grantable:
            return False
        subject = Subject(call, spec, facts_about(call, spec, self._workspace))
        return is_allowed(rules_of(skill), subject, edits_are_allowed=False)

    async def _run(self, command: str) -> str:
        """Raises: ToolError."""
        assert self._bash is not None, "nothing may run without it"
        input = self._bash.spec.input.model_validate({"command": command})
        outcome = await self._bash.run(input, ToolRoom("skill", lambda text: None))
        if isinstance(outcome, Deferred):
            raise ToolError("its output comes later")
        if outcome.is_error:
            raise ToolError(outcome.output[-500:])
        printed = outcome.output.removesuffix(_EXIT_OK)
        return "" if printed == _NO_OUTPUT else printed


async def _read(skill: Skill) -> str:
    """Raises: SkillAborted."""
    return await anyio.to_thread.run_sync(read_text, skill, abandon_on_cancel=True)
