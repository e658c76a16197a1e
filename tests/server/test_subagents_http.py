"""Subagents over HTTP: their questions in the stream of the session, answered in any order, and what they come to."""

import random
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from agentcore.doctor import examine
from tests.crash.stories import check_journal, of_kind
from tests.daemon import Daemon, running
from tests.server.test_questions_http import client, until_idle

pytestmark = pytest.mark.anyio

MANY = 20


def task(prompt: str, **more: object) -> dict[str, Any]:
    given = {"description": prompt, "prompt": prompt, "subagent_type": "general-purpose", **more}
    return {"name": "task", "input": given}


def asks(name: str) -> dict[str, Any]:
    """The story of a subagent that wants to run one command."""
    runs = {"name": "bash", "input": {"command": f"touch {name}.txt"}}
    return {"match": name, "turns": [{"tool_calls": [runs]}, {"text": f"{name} is done"}]}


def story(*scenes: dict[str, Any]) -> dict[str, Any]:
    return {"scenes": list(scenes)}


PIECES = [f"piece-{number:02}" for number in range(MANY)]
FAN_OUT = story(
    {"match": "fan out", "turns": [{"tool_calls": [task(piece) for piece in PIECES]}, {"text": "All are in."}]},
    *map(asks, PIECES),
)


async def until_asked(http: httpx.AsyncClient, session: str, count: int) -> list[dict[str, Any]]:
    with anyio.fail_after(20):
        while True:
            found = (await http.get(f"/v1/sessions/{session}/permissions")).json()["permissions"]
            if len(found) == count:
                return list(found)
            await anyio.sleep(0.001)


async def begin(http: httpx.AsyncClient, text: str, **settings: object) -> str:
    session = str((await http.post("/v1/sessions", json=settings)).json()["id"])
    await prompt(http, session, text)
    return session


async def prompt(http: httpx.AsyncClient, session: str, text: str) -> None:
    answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text})
    assert answer.status_code == 202, answer.text


async def answer(http: httpx.AsyncClient, session: str, request: dict[str, Any], **body: object) -> None:
    path = f"/v1/sessions/{session}/permissions/{request['request_id']}"
    given = {"allow": True, "digest": request["digest"], **body}
    assert (await http.post(path, json=given)).status_code == 204


async def results(http: httpx.AsyncClient, session: str) -> list[str]:
    """What the calls of the main agent came to, in their order."""
    messages = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    blocks = [block for message in messages for block in message["content"]]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def served(root: Path, script: dict[str, Any], *arguments: str) -> Any:
    Daemon(root).script("story", script)
    return running(root, "--model", "scripted/story.json", *arguments)


def journal(daemon: Daemon, session: str) -> list[dict[str, Any]]:
    return check_journal(daemon.journal(session).read_bytes())


@pytest.mark.parametrize("seed", [1, 2])
async def test_twenty_subagents_that_ask_at_once_are_answered_in_any_order(tmp_path: Path, seed: int) -> None:
    with served(tmp_path, FAN_OUT) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            asked = await until_asked(http, session, MANY)
            assert {request["agent"] for request in asked} == {f"general-purpose-{n + 1}" for n in range(MANY)}
            random.Random(seed).shuffle(asked)
            denied = asked[::5]
            for request in asked:
                await answer(http, session, request, allow=request not in denied)
            await until_idle(http, session)
            assert await results(http, session) == [f"{piece} is done" for piece in PIECES]
        made = {path.stem for path in daemon.cwd.glob("piece-*.txt")}
        refused = {request["input"]["command"].split()[1].removesuffix(".txt") for request in denied}
        assert made == set(PIECES) - refused
        resolved = of_kind(journal(daemon, session), "permission_resolved")
        assert [one["agent"] for one in resolved] == [request["agent"] for request in asked]


async def test_what_is_left_can_be_answered_after_some_were_cancelled_with_their_run(tmp_path: Path) -> None:
    few = PIECES[:6]
    background = [task(piece, run_in_background=True) for piece in few[:3]]
    script = story(
        {"match": "fan out", "turns": [{"tool_calls": [*background, *map(task, few[3:])]}, {"text": "All are in."}]},
        *map(asks, few),
    )
    with served(tmp_path, script) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            asked = await until_asked(http, session, 6)
            assert (await http.post(f"/v1/sessions/{session}/cancel", json={})).json() == {"cancelled": True}
            left = await until_asked(http, session, 3)
            assert sorted(request["task_id"] for request in left) == ["bg-1", "bg-2", "bg-3"]
            for request in asked:
                if request in left:
                    continue
                path = f"/v1/sessions/{session}/permissions/{request['request_id']}"
                late = await http.post(path, json={"allow": True})
                assert (late.status_code, late.json()["details"]) == (409, {"resolution": "cancelled"})
            for request in reversed(left):
                await answer(http, session, request)
            await until_told(http, session, 3)
        made = {path.stem for path in daemon.cwd.glob("piece-*.txt")}
        assert made == set(few[:3])
        ended = [event for event in of_kind(journal(daemon, session), "task_update") if event["state"] != "running"]
        assert {(event["state"], event["result"]) for event in ended} == {
            ("completed", f"{piece} is done") for piece in few[:3]
        }


async def until_told(http: httpx.AsyncClient, session: str, count: int) -> None:
    """Wait until the model was told of so many background tasks, and the session is idle."""
    with anyio.fail_after(20):
        while True:
            messages = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
            told = [message for message in messages if message.get("source") == "notification"]
            text = "".join(block["text"] for message in told for block in message["content"])
            if text.count("<task id=") == count and not (await http.get(f"/v1/sessions/{session}")).json()["busy"]:
                return
            await anyio.sleep(0.001)


async def test_an_answer_with_another_input_is_checked_as_the_subagents_own_call(tmp_path: Path) -> None:
    script = story(
        {"match": "fan out", "turns": [{"tool_calls": [task("piece-00")]}, {"text": "In."}]}, asks("piece-00")
    )
    with served(tmp_path, script) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            [asked] = await until_asked(http, session, 1)
            path = f"/v1/sessions/{session}/permissions/{asked['request_id']}"
            for given, status in (
                ({"command": 1}, 422),
                ({"command": "touch .git/config"}, 422),
                ({"command": "touch other.txt"}, 204),
            ):
                body = {"allow": True, "updated_input": given}
                assert (await http.post(path, json=body)).status_code == status, given
            await until_idle(http, session)
        assert [path.name for path in daemon.cwd.glob("*.txt")] == ["other.txt"]


async def test_what_is_more_than_twenty_waits_for_its_place(tmp_path: Path) -> None:
    many = [f"piece-{number:02}" for number in range(MANY + 2)]
    script = story(
        {"match": "fan out", "turns": [{"tool_calls": [*map(task, many)]}, {"text": "All are in."}]}, *map(asks, many)
    )
    with served(tmp_path, script) as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out")
            first = await until_asked(http, session, MANY)
            for request in first[:2]:
                await answer(http, session, request)
            for request in await until_asked(http, session, MANY):
                await answer(http, session, request)
            await until_idle(http, session)
            assert await results(http, session) == [f"{piece} is done" for piece in many]
        labels = [event["agent"] for event in of_kind(journal(daemon, session), "user_message") if "agent" in event]
        assert labels == [f"general-purpose-{number + 1}" for number in range(MANY + 2)]


@pytest.mark.parametrize("by", ["answer", "patch"])
async def test_one_raise_of_the_budget_lets_every_subagent_go_on(tmp_path: Path, by: str) -> None:
    few = PIECES[:3]
    script = story(
        {"match": "fan out", "turns": [{"tool_calls": [*map(task, few)]}, {"text": "All are in."}]}, *map(asks, few)
    )
    with served(tmp_path, script, "--allow-yolo") as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out", mode="yolo", budget={"tool_calls": 3})
            asked = await until_asked(http, session, 3)
            assert {(request["kind"], request["agent"]) for request in asked} == {
                ("budget", f"general-purpose-{number}") for number in (1, 2, 3)
            }
            if by == "patch":
                patched = await http.patch(f"/v1/sessions/{session}", json={"budget": {"tool_calls": 50}})
                assert patched.status_code == 200
            else:
                await answer(http, session, asked[1])
            await until_idle(http, session)
            assert await results(http, session) == [f"{piece} is done" for piece in few]


async def test_a_fork_an_export_and_the_doctor_know_subagents_from_the_main_agent(tmp_path: Path) -> None:
    script = story(
        {"match": "fan out", "turns": [{"tool_calls": [task("piece-00")]}, {"text": "In."}]},
        {"match": "again", "turns": [{"tool_calls": [task("piece-01")]}, {"text": "In again."}]},
        asks("piece-00"),
        asks("piece-01"),
    )
    with served(tmp_path, script, "--allow-yolo") as daemon:
        async with client(daemon) as http:
            session = await begin(http, "fan out", mode="yolo")
            await until_idle(http, session)
            fork = (await http.post(f"/v1/sessions/{session}/fork", json={})).json()["id"]
            listed = [(await http.get(f"/v1/sessions/{one}/messages")).json()["messages"] for one in (session, fork)]
            assert [message["content"] for message in listed[0]] == [message["content"] for message in listed[1]]
            markdown = (await http.get(f"/v1/sessions/{session}/export?format=markdown")).text
            assert markdown.count("piece-00 is done") == 1  # as a result, and not as words of the main agent
            lines = (await http.get(f"/v1/sessions/{session}/export?format=jsonl")).text.splitlines()
            assert sum('"agent":"general-purpose-1"' in line for line in lines) > 10
            await prompt(http, fork, "again")
            await until_idle(http, fork)
        events = journal(daemon, fork)
        assert {event.get("agent") for event in events} == {None, "general-purpose-1", "general-purpose-2"}
        assert of_kind(events, "permission_resolved") == []
        assert examine(daemon.journal(fork).parents[2], fork).findings == ()
