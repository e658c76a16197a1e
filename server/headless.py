"""One run without a server: `agentcore run -p "…"`. The same session, journal and events, and no HTTP.

Nobody is there to answer, so permission requests are denied. stdout gets the answer, or with `--output json` every
event as one line; everything else goes to stderr. The exit code tells how the run ended. Promise: a demo is never
mistaken for an answer; it plays only for who asks for it.
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator

import anyio

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import AgentError
from agentcore.events import StopReason
from agentcore.session import Settings
from server import logs
from server.hub import Hub
from server.live import LiveSession
from server.notes import DEMO, about_the_choice, has_no_model, how_to_get_a_model
from server.settings import CannotStart, RunSettings

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
    logs.tell_people(style, prefix="agentcore: ")
    if style == "json":
        logs.write_log(style)
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
            _say(*app.providers.passed_over(), *app.notices)
            raise CannotStart(f"There is no model: {how_to_get_a_model()}. A demo without one: --model {DEMO}")
        _say(*about_the_choice(app), *app.notices)
        return await _in_hub(app, chosen, settings)
    finally:
        await app.close()


async def _in_hub(app: App, chosen: Settings, settings: RunSettings) -> int:
    refusal: AgentError | None = None
    async with anyio.create_task_group() as tasks:
        hub = Hub(app, tasks)
        try:
            live = await hub.create(settings.cwd, chosen)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                tasks.start_soon(_cancel_on, signals, live)
                code = await _run(live, settings)
        except AgentError as error:
            refusal = error  # raised in here it would come out of the group as a group
        await hub.stop(b"")
    if refusal is not None:
        raise refusal
    return code


async def _run(live: LiveSession, settings: RunSettings) -> int:
    """Send the prompt and tell what it comes to. Begins without waiting: no signal is taken before there is a run."""
    denials = Counter[str]()
    live.agent.log.listen(lambda seq, kind, line: denials.update([kind] if b'"resolution":"denied"' in line else []))
    live.agent.log.listen(_print_line if settings.output == "json" else _say_notice)
    accepted = live.prompt(settings.prompt)
    result = await live.outcome_of(accepted.prompt_id).wait()
    if result is None:
        return EXIT_CODES["error"]
    if settings.output == "text" and result.text:
        print(result.text)
    if denied := denials["permission_resolved"]:
        _say(f"{denied} calls were denied: nobody is there to answer; see --mode")
    if result.error is not None:
        _say(result.error.text)
    elif result.stop_reason != "end_turn":
        _say(f"the run ended early: {result.stop_reason}")
    return EXIT_CODES.get(result.stop_reason, EXIT_CODES["error"])


def _print_line(_seq: int, _kind: str, line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _say_notice(_seq: int, kind: str, line: bytes) -> None:
    """Warnings, and that a model is asked again: that may be in minutes."""
    if kind != "notice":
        return
    notice = json.loads(line)
    if notice["level"] == "warning" or notice["code"] == "model_retry":
        _say(notice["text"])


def _say(*sentences: str) -> None:
    """Tell people, each sentence once."""
    for sentence in dict.fromkeys(sentences):
        logs.people.info("%s", sentence)


async def _cancel_on(signals: AsyncIterator[signal.Signals], live: LiveSession) -> None:
    """The first Ctrl-C ends the run in good order; its partial text is kept."""
    async for _ in signals:
        live.cancel()
