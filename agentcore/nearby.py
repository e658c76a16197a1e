"""Skills that come with files: what the model is told behind the result of a call that worked on the first of them.

Of one session. The system prompt stays as it is, so that requests go on hitting the provider's cache.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio.to_thread

from agentcore.events import Notice
from agentcore.hooks.room import HookRoom
from agentcore.hooks.session import SessionHooks
from agentcore.messages import ToolCall
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.hooks import AfterCall
from agentcore.ports.tools import Outcome
from agentcore.skills.listing import listing
from agentcore.skills.skill import Skill
from agentcore.surroundings import Surroundings
from agentcore.within import without_tags

_TOOLS = frozenset({"read", "write", "edit", "multi_edit"})
_SHOWN_TOKENS = 200_000
"""Of a window, of which the list takes its share: 2,000 tokens."""
_TOLD = """\
<skills>
There are skills for files such as this one. Where your task is what one of them is for, load it with the tool `skill` \
- or read its SKILL.md, where you have no such tool - before you go on.

{list}
</skills>"""

Nearby = Callable[[ToolCall], Awaitable[str | None]]
"""What the model is told with a call that went well; None: nothing."""


class HooksAndSkills(SessionHooks):
    """The hooks of a session, and behind them what comes with the files of a call. Satisfies the Hooks port."""

    def __init__(self, room: HookRoom) -> None:
        super().__init__(room)
        self._nearby: Nearby | None = None

    def hold(self, nearby: Nearby) -> None:
        """Take what knows the skills, once it is there."""
        self._nearby = nearby

    async def after_call(self, call: ToolCall, outcome: Outcome, duration_ms: int) -> AfterCall:
        heard = await super().after_call(call, outcome, duration_ms)
        if self._nearby is None or outcome.is_error or call.name not in _TOOLS:
            return heard
        told = await self._nearby(call)
        return heard if told is None else replace(heard, context=(*heard.context, told))


def nearby_of(
    surroundings: Surroundings,
    workspace: Workspace,
    tell: Callable[[Notice], object],
    check: Callable[[str], Awaitable[str]],
) -> Nearby:
    """`check` is what the guard makes of a text for the model."""

    async def nearby(call: ToolCall) -> str | None:
        path = (call.input or {}).get("file_path")
        if not isinstance(path, str):
            return None
        try:
            file = await anyio.to_thread.run_sync(workspace.resolve_readable, path)
        except OutsideRoots:
            return None
        skills, notices = await surroundings.come_to(file)
        for notice in notices:
            tell(notice.model_copy(update={"text": await check(notice.text)}))
        return await check(_told(skills, workspace)) if skills else None

    return nearby


def _told(skills: Sequence[Skill], workspace: Workspace) -> str:
    named = (replace(one, description=f"({workspace.shown(one.file)}) {one.description}") for one in skills)
    return _TOLD.format(list=without_tags(listing(named, _SHOWN_TOKENS), ("skills",)))
