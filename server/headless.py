"""One prompt without a server: `agentcore run -p "…"`. The same session, journal and events, and no HTTP.

Nobody is there to answer, so permission requests are denied. What the model lets go on in the background is waited for,
and so are the runs that tell it of the ends: then nothing is left undelivered. stdout gets the answers, or with
`--output json` every event as one line; everything else goes to stderr. The exit code tells how the last run ended.
Promise: a demo is never mistaken for an answer; it plays only for who asks for it.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import anyio
from anyio.abc import TaskGroup

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import AgentError
from agentcore.events import StopReason
from agentcore.session import Settings
from server import logs
from server.endings import Endings
from server.hub import Hub
from server.live import LiveSession
from server.notes import DEMO, about_the_choice, has_no_model, how_to_get_a_model
from server.output import give_up
from server.settings import CannotStart, RunSettings
from server.telling import Teller, Told, say, told_before

PREFIX = "agentcore: "
EXIT_CODES: dict[StopReason, int] = {
    "end_turn": 0,
    "error": 1,
    "refusal": 3,
    "max_tokens": 4,
    "max_turns": 5,
    "budget": 6,
    "interrupted": 130,
}
"""By stop reason; 2 is for mistakes on the command line, 1 for any reason that is not here."""


def main(settings: RunSettings) -> int:
    """Run one prompt to its end and return the exit code. Raises: CannotStart."""
    style = logs.log_style(os.environ)
    logs.tell_people(style, prefix=PREFIX)
    logs.write_log(style, prefix=PREFIX)
    try:
        return asyncio.run(_main(settings))
    except AgentError as error:
        raise CannotStart(str(error)) from error


async def _main(settings: RunSettings) -> int:
    wishes = {"mode": settings.mode, "max_turns": settings.max_turns}
    given = {name: value for name, value in wishes.items() if value is not None}
    config = AppConfig(
        roots=(settings.cwd,),
        data_dir=settings.folders.data,
        state_dir=settings.folders.state,
        config_dir=settings.folders.config,
        model=settings.model,
        defaults=Settings.model_validate({"unattended": "deny", **given}),
        allow_yolo=settings.allow_yolo,
    )
    app = App(config)
    try:
        chosen = await app.defaults(settings.cwd)
        app.validate(chosen)
        if has_no_model(app):
            say(*app.providers.passed_over(), *app.notices)
            raise CannotStart(f"There is no model: {how_to_get_a_model()}. A demo without one: --model {DEMO}")
        say(*about_the_choice(app), *app.notices)
        return await _in_hub(app, chosen, settings)
    finally:
        await app.close()


async def _in_hub(app: App, chosen: Settings, settings: RunSettings) -> int:
    refusal: AgentError | None = None
    async with anyio.create_task_group() as tasks:
        hub = Hub(app, tasks)
        try:
            live = await hub.create(settings.cwd, chosen)
            before = await told_before(app, live)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                interruption = _Interruption(hub, live, tasks)
                tasks.start_soon(interruption.wait_for, signals)
                code = await _run(live, settings, interruption, before)
        except AgentError as error:
            refusal = error  # raised in here it would come out of the group as a group
        await hub.stop(b"")
    if refusal is not None:
        raise refusal
    return code


class _Interruption:
    """The first Ctrl-C ends everything in good order: the run, whose partial text is kept, and the background tasks. So
    does a reader of stdout that leaves."""

    def __init__(self, hub: Hub, live: LiveSession, tasks: TaskGroup) -> None:
        self._hub = hub
        self._live = live
        self._tasks = tasks
        self.endings = Endings()
        """Told when the end has come."""
        self.has_begun = False
        self.is_over = False

    async def wait_for(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for _ in signals:
            self.has_begun = True
            await self._end()

    def begin(self) -> None:
        """The same without a signal; for listeners."""
        self.has_begun = True
        self._tasks.start_soon(self._end)

    async def _end(self) -> None:
        await self._hub.close(self._live, "interrupted")
        self.is_over = True
        self.endings.wake()


async def _run(live: LiveSession, settings: RunSettings, interruption: _Interruption, before: list[Told]) -> int:
    """Send the prompt and tell what it comes to, and what comes of the tasks that it leaves behind. Begins without
    waiting: no signal is taken, and nothing happens behind `before`, until there is a run."""
    endings, teller = interruption.endings, Teller(settings.output, interruption.begin)
    reason: StopReason = "error"
    for told in before:
        teller.take(*told)
    live.agent.log.listen(endings.take)
    live.agent.log.listen(teller.take)
    if not interruption.has_begun:
        live.prompt(settings.prompt)
    while _goes_on(live, interruption):
        for ending in await endings.wait():
            reason = ending.stop_reason
            teller.answer(ending.text)
            if ending.trouble is not None:
                say(ending.trouble)
        _say_what_is_waited_for(live)
    if endings.denials:
        say(f"{endings.denials} calls were denied: nobody is there to answer; see --mode")
    if teller.trouble is not None:
        return give_up(teller.trouble)
    return EXIT_CODES["interrupted"] if interruption.has_begun else EXIT_CODES.get(reason, EXIT_CODES["error"])


def _goes_on(live: LiveSession, interruption: _Interruption) -> bool:
    """Whether something is still to come."""
    if interruption.has_begun:
        return not interruption.is_over
    return live.is_busy or _is_in_background(live)


def _is_in_background(live: LiveSession) -> bool:
    """Whether something goes on, or has ended, that a run will begin to tell of."""
    agent = live.agent
    if agent.open_run is not None or live.is_broken or live.is_taken_over:
        return False  # suspended, or its journal takes no more: no run begins by itself
    return bool(agent.history.tasks.running or agent.has_news)


def _say_what_is_waited_for(live: LiveSession) -> None:
    """Once between two runs."""
    if not live.is_busy and not live.is_closing and _is_in_background(live):
        names = ", ".join(f"{task.task_id} ({task.label})" for task in live.agent.history.tasks.running)
        say(f"waiting for what goes on in the background: {names}; Ctrl-C ends it")
