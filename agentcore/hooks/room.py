"""The hooks of one session: which handlers a moment is for, all of them at once, and what each said.

What a hook does wrong is a notice that names its file and event, and decides nothing. What comes with the repository
runs only where it was approved as it stands.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import anyio
from anyio import to_thread
from pydantic_core import from_json, to_json

from agentcore.environment import command_environ
from agentcore.events import Notice
from agentcore.hooks import consulting, output, payloads, words
from agentcore.hooks.command import run_command
from agentcore.hooks.exports import VARIABLE, Exports
from agentcore.hooks.handlers import BrokenAction, CommandAction, Handler, HttpAction, McpAction, PromptAction
from agentcore.hooks.http import NoAnswer, post
from agentcore.hooks.moments import MOMENTS, Moment
from agentcore.hooks.output import Said, failed
from agentcore.hooks.payloads import Fields, Now
from agentcore.hooks.searching import Searches
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.ports.tools import ToolError
from agentcore.processes import Around, unconfined

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 60.0  # the contract's, where neither the handler nor the settings say otherwise
AskModel = Callable[[str, str, str | None], Awaitable[str]]
"""System prompt, question, and the model or None to the answer's text. Raises: ToolError with why there is none."""
CallMcp = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""Server, tool and its input to the text that it gives. Raises: ToolError with why there is none."""
Later = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]


@dataclass(frozen=True, slots=True)
class Scene:
    """The session that its hooks run for, and what they need of everybody else."""

    now: Callable[[], Now]
    project: Path
    """The top of the project: `CLAUDE_PROJECT_DIR`."""
    environ: Mapping[str, str]
    """Of the server, without the keys of its providers; commands get it without everything that looks like a secret."""
    secrets: Mapping[str, str]
    """Of the server, all of it: headers get what their handler may name."""
    tell: Callable[[Notice], object]
    """People are told by events of the session."""
    later: Later
    """Starts in a task group what nobody waits for."""
    is_approved: Callable[[Origin, str], bool]
    """Whether a shared file's handler may run, by `Handler.sha256`."""
    is_about: Callable[[str, ToolCall], bool | None]
    """Whether a permission rule (`if`) is about a call; None for a rule that cannot be read. It may block."""
    keep: Callable[[str], str | None]
    """Keep a long text in the session's folder and say where; None when it cannot be. Blocking."""
    default_timeout_s: float = DEFAULT_TIMEOUT_S
    ask_model: AskModel | None = None
    """Asks one of the session's models; None: there is none to ask."""
    call_mcp: CallMcp | None = None
    """Calls a tool of an MCP server; None: there is none."""
    tell_later: Callable[[str], object] | None = None
    """Let the model learn something with the next prompt; None: it does not."""
    exports: Exports | None = None
    """Where SessionStart hooks may write what commands get; None: nowhere."""
    around: Around = unconfined
    """What commands are confined by."""
    check: Callable[[str], Awaitable[str]] | None = None
    """What the guard makes of a text for the model; None: it is left as it is."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """A moment that has come."""

    event: str
    fields: Fields
    subject: Sequence[str] = ()
    """What matchers are compared with: the names of a tool, or a value."""
    call: ToolCall | None = None
    within_s: float | None = None
    """A bound over all handlers; None: each has its own."""


class HookRoom:
    """Runs the handlers of a session."""

    def __init__(self, handlers: Sequence[Handler], scene: Scene) -> None:
        self._of_settings = tuple(handlers)
        self._of_run: tuple[Handler, ...] = ()
        self._spent: set[str] = set()
        """By identity, those handlers of the run that run once and did."""
        self._approved: set[str] | None = None
        """Those of a repository that somebody approved, by content; None until the first occasion."""
        self._scene = scene
        self._searches = Searches()
        self._environ = command_environ(scene.environ)

    @property
    def now(self) -> Now:
        return self._scene.now()

    @property
    def handlers(self) -> tuple[Handler, ...]:
        return (*self._of_settings, *self._of_run)

    def add(self, handlers: Sequence[Handler]) -> int:
        """Have these too until the run ends; how many of them wait for approval."""
        self._of_run += tuple(handler for handler in handlers if handler not in self._of_run)
        return sum(not self._may_run(handler) for handler in handlers)

    def end_run(self) -> None:
        """Forget what was added for a run."""
        self._of_run = ()
        self._spent.clear()

    @property
    def transcript_path(self) -> str:
        return self._scene.now().transcript_path

    def has(self, event: str) -> bool:
        """Whether any handler of an event may run."""
        return any(handler.event == event and self._may_run(handler) for handler in self.handlers)

    def longest_s(self, event: str) -> float:
        """The longest time that a handler of an event asks for; 0 when none does."""
        own = (handler.timeout_s for handler in self.handlers if handler.event == event)
        return max((seconds for seconds in own if seconds is not None), default=0.0)

    async def hear(self, occasion: Occasion) -> list[Said]:
        """Run every handler that the occasion is for, side by side; what they said, in the order of the settings."""
        chosen = await self._chosen(occasion)
        if not chosen:
            return []
        input = self._input(occasion)
        said = [output.SILENT] * len(chosen)

        async def run_one(place: int, handler: Handler) -> None:
            said[place] = await self._run(handler, occasion, input)

        async with anyio.create_task_group() as group:
            for place, handler in enumerate(chosen):
                if handler.is_async:
                    self._later(partial(self._run_unheard, handler, occasion, input))
                else:
                    group.start_soon(run_one, place, handler)
        for handler, one in zip(chosen, said, strict=True):
            self._tell(handler, one)
        return said

    def start(self, occasion: Occasion) -> None:
        """Run them without waiting for any."""

        async def hear() -> None:
            await self.hear(occasion)

        if self.has(occasion.event):
            self._later(hear)

    def _later(self, run: Callable[[], Coroutine[Any, Any, object]]) -> None:
        session = self._scene.now().session

        async def guarded() -> None:
            try:
                await run()
            except Exception:  # nobody waits for it, and the group that it runs in is everybody's
                logger.exception("hooks that nobody waits for failed in session %s", session)

        self._scene.later(guarded)

    def notice(self, level: str, code: str, text: str) -> None:
        self._scene.tell(Notice(level="warning" if level == "warning" else "info", code=code, text=text))

    # --- choosing ---

    def _may_run(self, handler: Handler) -> bool:
        return not handler.origin.is_shared or self._scene.is_approved(handler.origin, handler.sha256)

    def _is_allowed(self, handler: Handler) -> bool:
        """As `_may_run`; warns, once, of a hook that ran, or might have, and does not any more."""
        if self._approved is None:
            self._approved = {one.sha256 for one in self.handlers if one.origin.is_shared and self._may_run(one)}
        may_run = self._may_run(handler)
        if may_run and handler.origin.is_shared:
            self._approved.add(handler.sha256)
        elif not may_run and handler.sha256 in self._approved:
            self._approved.remove(handler.sha256)
            text = (
                f"The hook {handler.title} of {handler.origin.name} runs no more: its approval was taken back, or"
                " what it runs was changed. See agentcore hooks."
            )
            self.notice("warning", "approval_needed", text)
        return may_run

    async def _chosen(self, occasion: Occasion) -> tuple[Handler, ...]:
        """The same handler written in several files runs once."""
        chosen: dict[str, Handler] = {}
        for handler in self.handlers:
            # first whether it may run at all: what nobody approved costs nothing, its matcher included
            may_run = handler.event == occasion.event and self._is_allowed(handler)
            if may_run and await self._is_meant(handler, occasion) and await self._is_about(handler, occasion.call):
                if handler.identity not in self._spent:
                    chosen.setdefault(handler.identity, handler)
                if handler.is_once:
                    self._spent.add(handler.identity)
        return tuple(chosen.values())

    async def _is_meant(self, handler: Handler, occasion: Occasion) -> bool:
        """A matcher that takes too long matches, with a notice: a hook that runs too often does less harm."""
        matcher, names, pattern = handler.matcher, occasion.subject, handler.matcher.pattern
        if MOMENTS[handler.event].matched_on == "nothing":
            return True
        if pattern is None or matcher.ends_soon(names):
            return matcher.matches(names)
        for name in names:
            match await self._searches.find(pattern.pattern, name):
                case True:
                    return True
                case None:
                    self._tell(handler, failed("has a matcher that takes too long: it counts as one that matches"))
                    return True
        return False

    async def _is_about(self, handler: Handler, call: ToolCall | None) -> bool:
        """A condition that cannot be read holds: a hook that runs too often does less harm."""
        if handler.condition is None or call is None:
            return True
        return await to_thread.run_sync(self._scene.is_about, handler.condition, call) is not False

    # --- running ---

    def _input(self, occasion: Occasion) -> bytes:
        common = payloads.common(self._scene.now(), occasion.event)
        return to_json({**common, **occasion.fields}, inf_nan_mode="null")

    async def _run(self, handler: Handler, occasion: Occasion, input: bytes) -> Said:
        """The barrier of a hook: whatever happens in it, it has said something."""
        try:
            said = await self._ask(handler, occasion, input)
        except Exception:
            logger.exception("hook %s failed in session %s", handler, self._scene.now().session)
            said = failed("failed with an internal error; the server's log has the details")
        said = _confined(handler, await self._bounded(said))
        return _closed(handler, said) if said.has_failed and handler.is_fail_closed else said

    async def _ask(self, handler: Handler, occasion: Occasion, input: bytes) -> Said:
        moment, scene = MOMENTS[handler.event], self._scene
        is_question = isinstance(handler.action, PromptAction)
        timeout_s = handler.timeout_s or (consulting.PROMPT_TIMEOUT_S if is_question else scene.default_timeout_s)
        if occasion.within_s is not None:
            timeout_s = min(timeout_s, occasion.within_s)
        late = failed(f"did not finish within {timeout_s:g} s and was ended")
        match handler.action:
            case CommandAction() as action:
                now, environ = scene.now(), self._environ_of(handler)
                try:
                    ran = await run_command(action, input, now.cwd, scene.project, environ, timeout_s, scene.around)
                except (OSError, ValueError) as error:
                    return failed(f"could not be started: {getattr(error, 'strerror', None) or 'it is no command'}")
                if ran.exit_code is None:
                    return late
                if handler.is_waking and ran.exit_code == 2:
                    return Said(blocked=ran.stderr.strip() or output.UNSAID)
                return output.read_printed(moment, ran.exit_code, ran.stdout, ran.stderr)
            case HttpAction() as action:
                try:
                    status, body = await post(action, input, scene.secrets, timeout_s)
                except NoAnswer as error:
                    return failed(f"was not answered ({error})")
                except TimeoutError:
                    return late
                return output.read_answered(moment, status, body)
            case PromptAction() | McpAction() as action:
                try:
                    with anyio.fail_after(timeout_s):
                        return await self._consult(moment, action, input)
                except ToolError as error:
                    return failed(f"could not be asked: {error}")
                except TimeoutError:
                    return late
            case BrokenAction(why=why):
                return failed(f"cannot be used: {why}")
            case _:
                assert_never(handler.action)

    async def _consult(self, moment: Moment, action: PromptAction | McpAction, input: bytes) -> Said:
        """Raises: ToolError."""
        scene = self._scene
        if isinstance(action, PromptAction):
            if scene.ask_model is None:
                raise ToolError("there is no model")
            question = await self._checked(consulting.question(action.prompt, input))  # it leaves for a model
            answer = await scene.ask_model(consulting.SYSTEM, question, action.model)
            return output.read_judged(moment, answer, goes_on=action.goes_on)
        if scene.call_mcp is None:
            raise ToolError("there is no MCP server")
        given = consulting.filled(action.input, from_json(input))
        return output.read_printed(moment, 0, await scene.call_mcp(action.server, action.tool, given), "")

    async def begin_exports(self) -> None:
        """A fresh context begins: what was exported for the last one is forgotten."""
        if self._scene.exports is not None:
            try:
                has_writers = self.has("SessionStart")
                await to_thread.run_sync(partial(self._scene.exports.begin, has_writers=has_writers))
            except OSError as error:
                self.notice("warning", "hook_failed", f"There is no {VARIABLE} for hooks ({type(error).__name__}).")

    async def take_exports(self) -> None:
        """SessionStart hooks have run: commands get what they exported."""
        if self._scene.exports is not None:
            for text in await to_thread.run_sync(self._scene.exports.read):
                self.notice("warning", "hook_failed", text)

    def _environ_of(self, handler: Handler) -> dict[str, str]:
        project, exports = str(self._scene.project), self._scene.exports
        return {
            **self._environ,
            **({VARIABLE: str(exports.file)} if exports is not None and handler.event == "SessionStart" else {}),
            "CLAUDE_PROJECT_DIR": project,
            "AGENTCORE_PROJECT_DIR": project,
            "AGENTCORE_SESSION_ID": self._scene.now().session,
            "AGENTCORE_HOOK_EVENT": handler.event,
        }

    async def _run_unheard(self, handler: Handler, occasion: Occasion, input: bytes) -> None:
        """Of a handler that nobody waits for, people are told what went wrong and what it says to them."""
        said = await self._run(handler, occasion, input)
        self._tell(handler, Said(message=said.message, problems=said.problems))
        if handler.is_waking and said.blocked is not None and self._scene.tell_later is not None:
            self._scene.tell_later(words.feedback_text(handler.event, said.blocked))

    # --- what it said ---

    async def _bounded(self, said: Said) -> Said:
        """No text is longer than the conventions allow: the whole of it is in a file."""
        return replace(
            said,
            reason=await self._kept(said.reason),
            blocked=None if said.blocked is None else await self._kept(said.blocked),
            context=await self._kept(said.context),
            message=words.preview(said.message),
            halt_reason=words.preview(said.halt_reason),
            title=said.title and await self._checked(said.title),
        )

    async def _checked(self, text: str) -> str:
        """What the guard makes of a text."""
        return await self._scene.check(text) if text and self._scene.check is not None else text

    async def _kept(self, text: str) -> str:
        """A text for the model, past the guard; the model can read the file that holds the rest of a long one."""
        text = await self._checked(text)
        if len(text) <= words.MAX_CHARS:
            return text
        return words.preview(text, await to_thread.run_sync(self._scene.keep, text))

    def _tell(self, handler: Handler, said: Said) -> None:
        for problem in said.problems:
            self.notice("warning", "hook_failed", f"The hook {handler} {problem}.")
        if said.message:
            self.notice("info", "hook_message", said.message)
        if said.is_halt:
            why = said.halt_reason or output.UNSAID
            self.notice("warning", "hook_stopped", f"The hook {handler} stopped the run: {why}")


def _confined(handler: Handler, said: Said) -> Said:
    """What comes with a repository changes nothing beyond the session, and not its mode."""
    if said.permission is None or not handler.origin.is_shared:
        return said
    kept = said.permission.updates.of_session
    if kept == said.permission.updates:
        return said
    problem = "comes with the repository: of its `updatedPermissions` only the rules for the session count"
    return replace(said, permission=replace(said.permission, updates=kept), problems=(*said.problems, problem))


def _closed(handler: Handler, said: Said) -> Said:
    """A hook that must not fail open has failed."""
    why = f"the hook {handler} failed, and what it does not let through is denied (fail_closed)"
    match handler.event:
        case "PreToolUse":
            return Said(verdict="deny", reason=why, problems=said.problems)
        case "PermissionRequest":
            return Said(permission=output.Permission(is_allowed=False, message=why), problems=said.problems)
        case _:
            return Said(blocked=why, problems=said.problems)
