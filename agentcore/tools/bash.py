"""The tool `bash`: one shell command, its output while it runs, and the end of all it started.

In the background the call is over at once: the command goes on as a task of the session, and nothing of it can be
undone, since it ends in another run than it began in."""

import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import anyio
from pydantic import Field, StrictBool

from agentcore.environment import command_environ
from agentcore.events import Notice
from agentcore.git_environ import QUIET, with_git_settings
from agentcore.permissions.workspace import Workspace
from agentcore.ports.background import Background, TaskRoom
from agentcore.ports.checkpoints import Checkpoints, Coverage
from agentcore.ports.sandbox import Boxed
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.processes import Command, Running, running
from agentcore.tools.boxed import Box, Boxing
from agentcore.tools.inputs import Plain
from agentcore.tools.output import HeadTail, LiveOutput
from agentcore.values import Value

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
BASH = Path("/bin/bash")
SUCCESS = "exit code 0"
TOLD_BYTES = 2_000
"""Of the head and of the tail of a background command's output, together, in what is told when it ends."""
_NOT_COVERED = "What commands in the background change cannot be undone."


class BashInput(Value):
    command: Plain = Field(min_length=1, description="The command line, as for `bash -c`.")
    description: Plain | None = Field(default=None, description="What the command does, in five to ten words.")
    timeout: int = Field(
        default=DEFAULT_TIMEOUT_MS,
        ge=1,
        le=MAX_TIMEOUT_MS,
        description=f"Milliseconds after which it is ended; {DEFAULT_TIMEOUT_MS} unless set.",
    )
    sandbox: StrictBool = Field(
        default=True,
        description="false: run it outside of the sandbox, which a person is asked about. Only for what failed inside.",
    )
    run_in_background: StrictBool = Field(
        default=False,
        description=(
            "true: return at once while the command goes on, for servers and long builds. It has no time limit unless "
            "`timeout` is set. You are told when it ends; until then task_output shows what it prints."
        ),
    )

    @property
    def background_timeout_ms(self) -> int | None:
        """None unless it was asked for: the default is for who waits."""
        return self.timeout if "timeout" in self.model_fields_set else None


class BashTool:
    spec = ToolSpec(
        name="bash",
        description=(
            "Run a shell command in the working directory and return its output and exit code. Each call is a fresh "
            "shell without a terminal or input; everything it starts ends with the call, `&` or not: what is to go on "
            "needs run_in_background. Long output keeps its head and tail. To read, search or change files use the "
            "tools made for it."
        ),
        input=BashInput,
        timeout_s=None,
    )

    def __init__(
        self,
        workspace: Workspace,
        environ: Mapping[str, str],
        checkpoints: Checkpoints | None = None,
        boxing: Boxing | None = None,
        background: Background | None = None,
        *,
        exported: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Without `checkpoints` nothing is kept for an undo; without `boxing` nothing is confined; without `background`
        nothing outlives its call. `exported` is what hooks set for commands, by now."""
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._boxing = boxing
        self._background = background
        self._has_told = checkpoints is None
        """That what runs in the background cannot be undone."""
        self._environ = command_environ(environ)
        self._exported = exported
        self._shell = str(BASH if BASH.exists() else "sh")

    async def run(self, input: BashInput, room: ToolRoom) -> Outcome:
        argv = (self._shell, "-c", "--", input.command)  # "--": a command may begin with a dash
        environ = with_git_settings({**self._environ, **self._exported()}, QUIET)
        command = Command(argv, self._workspace.cwd, environ)
        box = await self._box() if input.sandbox else None
        if input.run_in_background:
            return self._begin(input, command, box)
        return await run_command(command, input.timeout, room, self._checkpoints, box)

    def _begin(self, input: BashInput, command: Command, box: Box | None) -> Outcome:
        """Raises: ToolError when it cannot run in the background."""
        if self._background is None:
            raise ToolError("Nothing can run in the background here: call again without run_in_background.")

        async def work(task: TaskRoom) -> Outcome:
            return await run_task(command, input.background_timeout_ms, task, box)

        task_id = self._background.start(input.description or input.command, work, kind="bash")
        told = f"Runs in the background as {task_id}. You are told when it ends; task_output shows what it prints."
        notices = () if self._has_told else (Notice(level="info", code="command_not_covered", text=_NOT_COVERED),)
        self._has_told = True
        return Outcome(told, events=notices)

    def preview(self, input: BashInput) -> None:
        return None

    async def _box(self) -> Box | None:
        """None where nothing can be confined: then whoever allowed the call knew that."""
        boxing = self._boxing
        if boxing is None or not await boxing.is_ready():
            return None
        return Box(boxing.sandbox, boxing.profile(self._workspace))


async def run_command(
    command: Command,
    timeout_ms: int,
    room: ToolRoom,
    checkpoints: Checkpoints | None = None,
    box: Box | None = None,
) -> Outcome:
    """Run a command to its end: shown while it runs, ended with all that it started, kept for an undo.

    Without `checkpoints` nothing is kept; without `box` it is not confined. Raises: ToolError when it cannot be
    started.
    """
    output = LiveOutput(room.say)
    try:
        with _startable():
            async with _kept(checkpoints) as coverage, _boxed(box, command) as (started, boxed):
                ending = await _ended(started, timeout_ms, output)
    finally:
        output.close()
    printed = output.kept.text()
    left = [] if box is None else await box.look_back()
    events = (*coverage.notices, *left)
    if ending is None:
        told = f"timed out after {timeout_ms} ms and was ended"
        return Outcome(_with_ending(printed, told, *boxed.remarks, *_warnings(left)), is_error=True, events=events)
    remarks = (*_remarks(box, boxed, printed, ending), *_warnings(left))
    return Outcome(_with_ending(printed, ending, *remarks), events=events)


async def run_task(command: Command, timeout_ms: int | None, task: TaskRoom, box: Box | None) -> Outcome:
    """Run a command as a background task; it has failed when its exit code is not 0, or its time was over.

    Raises: ToolError when it cannot be started.
    """
    kept = HeadTail(TOLD_BYTES // 2)

    def take(chunk: bytes) -> None:
        kept.add(chunk)
        task.take(chunk)

    with _startable():
        async with _boxed(box, command) as (started, boxed), running(started, take) as child:
            task.began(child.pid)
            with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000) as limit:
                await child.wait()
    is_late = limit.cancelled_caught
    ending = f"timed out after {timeout_ms} ms and was ended" if is_late else _told(child.exit_code)
    printed = kept.text()
    left = [] if box is None else await box.look_back()
    remarks = (*_remarks(box, boxed, printed, ending), *_warnings(left))
    return Outcome(_with_ending(printed, ending, *remarks), is_error=ending != SUCCESS, events=tuple(left))


@contextmanager
def _startable() -> Iterator[None]:
    """Raises: ToolError in the place of what keeps a command from being started."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError("the working directory or the program does not exist") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"the command could not be started: {reason}") from error


def _remarks(box: Box | None, boxed: Boxed, printed: str, ending: str) -> list[str]:
    words = None if box is None else box.words(printed, has_failed=ending != SUCCESS)
    return boxed.remarks if words is None else [*boxed.remarks, words]


def _warnings(notices: Iterable[Notice]) -> list[str]:
    """What of them the model is told."""
    return [notice.text for notice in notices if notice.level == "warning"]


def _kept(checkpoints: Checkpoints | None) -> AbstractAsyncContextManager[Coverage]:
    return nullcontext(Coverage()) if checkpoints is None else checkpoints.around_command()


@asynccontextmanager
async def _boxed(box: Box | None, command: Command) -> AsyncIterator[tuple[Command, Boxed]]:
    if box is None:
        yield command, Boxed(command.argv, command.environ)
        return
    async with box.around(command) as (confined, boxed):
        yield confined, boxed


async def _ended(command: Command, timeout_ms: int, output: LiveOutput) -> str | None:
    """Run to the end; return how it ended, None for a timeout."""
    async with running(command, output.take) as child:
        with anyio.move_on_after(timeout_ms / 1000) as limit:
            await _follow(child, output)
    return None if limit.cancelled_caught else _told(child.exit_code)


async def _follow(child: Running, output: LiveOutput) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(output.show)
        await child.wait()
        group.cancel_scope.cancel()


def _told(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"


def _with_ending(output: str, *remarks: str) -> str:
    """What was printed, and behind it how it ended and what else is to be said."""
    printed = output.removesuffix("\n") if output else "(no output)"
    return "\n".join((printed, *(f"[{remark}]" for remark in remarks)))
