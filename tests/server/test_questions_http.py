"""A question to a person over HTTP: offered in the snapshot and the state, answered once, kept through a SIGKILL."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from tests.daemon import Daemon, running

pytestmark = pytest.mark.anyio

COLOR = {"question": "Which color?", "header": "Color", "options": [{"label": "red"}, {"label": "blue"}]}
SURE = {"question": "Are you sure?", "header": "Sure"}
SCRIPT = {
    "turns": [
        {"tool_calls": [{"name": "ask_user", "input": {"questions": [COLOR, SURE]}}]},
        {"text": "Thank you."},
    ]
}


def client(daemon: Daemon) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=daemon.url, headers={"Authorization": f"Bearer {daemon.token}"}, timeout=20)


async def until_asked(http: httpx.AsyncClient, session: str) -> dict[str, Any]:
    with anyio.fail_after(20):
        while not (found := (await http.get(f"/v1/sessions/{session}/permissions")).json()["permissions"]):  # noqa: ASYNC110 - lets workers run
            await anyio.sleep(0.001)
    request: dict[str, Any] = found[0]
    return request


async def until_idle(http: httpx.AsyncClient, session: str) -> dict[str, Any]:
    with anyio.fail_after(20):
        while (state := (await http.get(f"/v1/sessions/{session}")).json())["busy"]:  # noqa: ASYNC110 - lets workers run
            await anyio.sleep(0.001)
    found: dict[str, Any] = state
    return found


async def test_a_question_waits_through_a_kill_and_takes_the_first_answer_that_fits(tmp_path: Path) -> None:
    Daemon(tmp_path).script("ask", SCRIPT)
    with running(tmp_path, "--model", "scripted/ask.json") as daemon:
        async with client(daemon) as http:
            session = (await http.post("/v1/sessions", json={})).json()["id"]
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            request = await until_asked(http, session)
            assert request["kind"] == "question"
            assert request.get("options") is None  # there are two questions: each has its own in the input
            assert (await http.get(f"/v1/sessions/{session}")).json()["waiting_for"] == "question"
        daemon.restart()
        async with client(daemon) as http:
            await http.post("/v1/sessions", json={"resume": session})
            assert await until_asked(http, session) == request
            state = (await http.get(f"/v1/sessions/{session}")).json()
            assert (state["waiting_for"], state["interrupted"]) == ("question", True)
            path = f"/v1/sessions/{session}/permissions/{request['request_id']}"
            for body, status in (
                ({"allow": True}, 400),
                ({"allow": True, "answer": ["green", True]}, 422),
                ({"allow": True, "answer": ["red"]}, 422),
                ({"allow": True, "answer": {"Color": "red"}}, 422),
                ({"allow": True, "answer": ["red", True], "digest": "0" * 64}, 409),
                ({"allow": True, "answer": {"Color": "red", "Sure": True}, "digest": request["digest"]}, 204),
                ({"allow": True, "answer": ["blue", True]}, 409),
            ):
                assert (await http.post(path, json=body)).status_code == status, body
            await until_idle(http, session)
            messages = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
            [result] = [block for block in messages[2]["content"] if block["type"] == "tool_result"]
            assert result["content"] == "The user answered:\n- Which color?\n  red\n- Are you sure?\n  yes"
            assert messages[3]["content"][0]["text"] == "Thank you."
