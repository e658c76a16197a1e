"""Which session and run a log line belongs to: those of the task that logs it, and of nobody where it works for all."""

from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from agentcore.languages import LanguageSetup
from agentcore.log_ids import LogIds, log_ids, logging_for
from agentcore.lsp.room import LanguageServers
from agentcore.lsp.supervisor import Supervisor
from server.supervisor import Supervisor as Supervision
from server.supervisor import logger
from tests.fakes import FakeClock, house

pytestmark = pytest.mark.anyio


async def test_they_go_with_a_task_those_that_it_starts_and_its_threads() -> None:
    found: list[LogIds | None] = [log_ids()]

    async def look() -> None:
        found.append(log_ids())

    with logging_for("s"):
        with logging_for("s", "r"):
            async with anyio.create_task_group() as group:
                group.start_soon(look)
            found.append(await to_thread.run_sync(log_ids))
            with logging_for(None):
                found.append(log_ids())
        found.append(log_ids())
    assert [*found, log_ids()] == [None, LogIds("s", "r"), LogIds("s", "r"), None, LogIds("s"), None]


async def test_what_fails_around_a_run_is_logged_for_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(supervisor: Supervision) -> None:
        raise RuntimeError("a bug")

    seen: list[LogIds | None] = []
    monkeypatch.setattr(Supervision, "_supervise", fail)
    monkeypatch.setattr(logger, "exception", lambda *told: seen.append(log_ids()))
    async with house(tmp_path) as home:
        live = await home.session()
        await home.run(live, "go")
        assert seen == [LogIds(live.id)]


async def test_a_language_server_that_a_session_starts_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[LogIds | None] = []

    async def run(supervisor: Supervisor) -> None:
        found.append(log_ids())

    monkeypatch.setattr(Supervisor, "run", run)
    setup = LanguageSetup("fake", ("fake",), {".fake": "fake"}, ("fake.toml",))
    servers = LanguageServers({}, FakeClock(), (setup,))
    async with anyio.create_task_group() as group:
        await group.start(servers.serve)
        with logging_for("s", "r"):
            servers._wanted(setup, tmp_path)
        while not found:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert found == [None]
