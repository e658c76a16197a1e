"""Killed while a subagent works: it is not gone on with, everything of it has its end, and the main agent goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentcore.providers.scripted.provider import ScriptedProvider
from agentcore.providers.scripted.script import Script
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.crash.stories import check_journal, of_kind
from tests.fakes import House, house
from tests.server.test_questions_http import client, until_idle
from tests.server.test_subagents_http import (
    PIECES,
    answer,
    asks,
    begin,
    journal,
    prompt,
    results,
    served,
    story,
    task,
    until_asked,
)

pytestmark = pytest.mark.anyio

TWO = PIECES[:2]
SCRIPT = story(
    {"match": "fan out", "turns": [{"tool_calls": [*map(task, TWO)]}, {"text": "I know that they were cut off."}]},
    {"match": "again", "turns": [{"tool_calls": [task(TWO[0])]}, {"text": "In."}]},
    *map(asks, TWO),
)
ALLOW = AnswerBody(allow=True)
FIRST_LINES = 2  # `meta` and `load`


def check_ends(events: list[dict[str, Any]], told: str = "") -> None:
    """Of every agent each turn, model call and call that began has one end."""
    for agent in {event.get("agent") for event in events}:
        own = [event for event in events if event.get("agent") == agent]
        for start, end in (("turn_start", "turn_end"), ("model_start", "model_end")):
            assert len(of_kind(own, start)) == len(of_kind(own, end)), (told, agent, start)
        asked = {block["id"] for event in of_kind(own, "assistant_message") for block in calls_in(event)}
        assert {event["call_id"] for event in of_kind(own, "tool_end")} == asked, (told, agent)


def calls_in(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in event["message"]["content"] if block["type"] == "tool_use"]


async def test_requests_expire_calls_end_unknown_and_the_main_agent_goes_on(tmp_path: Path) -> None:
    with served(tmp_path, SCRIPT) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            asked = await until_asked(http, session, 2)
        daemon.restart()
        async with client(daemon) as http:
            state = (await http.post("/v1/sessions", json={"resume": session})).json()
            assert (state["pending_permissions"], state["interrupted"]) == (0, True)
            late = await http.post(f"/v1/sessions/{session}/permissions/{asked[0]['request_id']}", json={"allow": True})
            assert (late.status_code, late.json()["code"]) == (410, "permission_expired")
            await http.post(f"/v1/sessions/{session}/resume", json={})
            await until_idle(http, session)
            assert [text.partition(":")[0] for text in await results(http, session)] == ["outcome unknown"] * 2
            await prompt(http, session, "again")
            [again] = await until_asked(http, session, 1)
            assert (again["request_id"], again["agent"]) == ("perm-3", "general-purpose-3")
            await answer(http, session, again)
            await until_idle(http, session)
        events = journal(daemon, session)
        check_ends(events)
        assert [event["resolution"] for event in of_kind(events, "permission_resolved")] == ["expired"] * 2 + [
            "allowed"
        ]
        assert [path.stem for path in daemon.cwd.glob("piece-*.txt")] == TWO[:1]


# --- behind any line ---


@asynccontextmanager
async def restarted(root: Path) -> AsyncIterator[House]:
    async with house(root) as home:
        home.app.providers.provider = ScriptedProvider(Script.model_validate(SCRIPT))  # type: ignore[attr-defined]
        yield home


async def to_its_end(live: LiveSession) -> None:
    """Allow whatever is asked until nothing goes on."""
    with anyio.fail_after(20):
        while live.is_busy:
            for request in live.requests.open:
                live.answer(request.request_id, ALLOW)
            await anyio.lowlevel.checkpoint()


async def test_behind_any_line_everything_of_a_subagent_has_its_end(tmp_path: Path) -> None:
    async with restarted(tmp_path) as home:
        live = await home.session()
        live.prompt("fan out")
        await to_its_end(live)
        path = tmp_path / "data" / "sessions"
        [path] = path.glob(f"*/{live.id}/journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    for count in range(FIRST_LINES, len(lines) + 1):
        told = f"killed behind line {count}: {lines[count - 1][:60]!r}"
        path.write_bytes(b"".join(lines[:count]))
        async with restarted(tmp_path) as home:
            live = await home.reload(live.id)
            assert live.requests.open == (), told
            if live.state().interrupted:
                live.resume_run()
            await to_its_end(live)
            used = live.agent.history.ledger.used
        events = check_journal(path.read_bytes())
        check_ends(events, told)
        async with restarted(tmp_path) as home:
            live = await home.reload(live.id)
            again = live.agent.history.ledger.used
            assert (again.tokens, again.tool_calls) == (used.tokens, used.tool_calls), told
            assert len(check_journal(path.read_bytes())) == len(events), told  # nothing is closed twice


async def test_a_client_that_comes_back_sees_the_ends_that_the_load_made(tmp_path: Path) -> None:
    with served(tmp_path, SCRIPT) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            await until_asked(http, session, 2)
            last = (await http.get(f"/v1/sessions/{session}")).json()["last_seq"]
        daemon.restart()
        async with client(daemon) as http:
            await http.post("/v1/sessions", json={"resume": session})
            kinds = await replayed(http, session, last)
        assert [kind for kind in kinds if kind != "notice"][:5] == [
            "permission_resolved",
            "permission_resolved",
            "tool_end",
            "turn_end",
            "tool_end",
        ]


async def replayed(http: httpx.AsyncClient, session: str, after: int) -> list[str]:
    """The types of the first events behind a number that are about subagents."""
    found: list[str] = []
    async with http.stream("GET", f"/v1/sessions/{session}/events?after={after}") as stream:
        with anyio.fail_after(20):
            async for line in stream.aiter_lines():
                if line.startswith("data:") and '"agent":' in line:
                    found.append(line.partition('"type":"')[2].partition('"')[0])
                if len(found) == 6:
                    return found
    return found
