"""What of a server's messages gets in: bounds of lines, bodies and questions, and what nobody asked for."""

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.mcp import callers as room
from agentcore.mcp import stdio, watched
from agentcore.mcp.callers import Caller, Callers
from agentcore.mcp.pool import McpServers
from agentcore.mcp.states import State, Timing
from agentcore.mcp.stdio import Lines, TooLarge
from agentcore.mcp.targets import Target
from agentcore.mcp.tool import Patience, Scene
from agentcore.mcp.view import SessionServers
from tests.fakes import MemoryBlobs
from tests.mcp.housed import configured
from tests.mcp.serving import ENVIRON, QUICK, odd, pool, reached
from tests.webserver import answer, web_server

pytestmark = pytest.mark.anyio


# --- lines ---


def test_lines_are_put_together_from_any_pieces() -> None:
    lines = Lines()
    found = [line for chunk in (b"a", b"b\n\nc\nd", b"", b"e\n", b"f") for line in lines.add(chunk)]
    assert found == [b"ab", b"c", b"de"]


def test_a_line_without_an_end_is_not_kept_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 10)
    lines = Lines()
    assert list(lines.add(b"x" * 10)) == []
    with pytest.raises(TooLarge):
        list(lines.add(b"x"))


@pytest.mark.parametrize(
    ("line", "is_fine"), [(b"[" * 40, False), (b"x" * 40, True), (b'["' + b"a," * 3 + b'"]', True)]
)
def test_a_line_has_only_so_many_values(monkeypatch: pytest.MonkeyPatch, line: bytes, is_fine: bool) -> None:
    monkeypatch.setattr(stdio, "MAX_PARTS", 20)
    if is_fine:
        assert list(Lines().add(line + b"\n")) == [line]
    else:
        with pytest.raises(TooLarge):
            list(Lines().add(line + b"\n"))


# --- messages ---


@asynccontextmanager
async def streams() -> AsyncIterator[tuple[Any, Any, Any, watched.Watch]]:
    """What the server sends into; what the SDK reads and writes."""
    watch = watched.Watch()
    send, receive = anyio.create_memory_object_stream[Any](1000)
    write, written = anyio.create_memory_object_stream[Any](1000)
    async with send, receive, write, written, watched.watched((receive, write), watch) as (read, answer):
        yield send, read, answer, watch


def message(**fields: Any) -> Any:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    return SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **fields}))


async def test_what_nobody_asked_for_is_dropped_before_it_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "REST_S", 0)
    async with streams() as (send, read, _, _):
        for number in range(300):
            await send.send(message(method="notifications/message", params={"level": "info", "data": number}))
            await send.send(message(method="notifications/anything"))
            await send.send(ValueError("no message"))
        await send.send(message(method="notifications/tools/list_changed"))
        with anyio.fail_after(5):
            assert (await read.receive()).message.method == "notifications/tools/list_changed"


async def test_who_asks_more_than_he_hears_is_let_go_and_answers_count() -> None:
    async with streams() as (send, read, answers, watch):
        for number in range(100):
            await send.send(message(id=number, method="ping"))
            await read.receive()
            await answers.send(message(id=number, result={}))
        for number in range(100, 140):
            await send.send(message(id=number, method="ping"))
            await send.send(message(method="notifications/cancelled", params={"requestId": number}))
            await read.receive()
            await read.receive()
        for number in range(200, 200 + watched.MAX_QUESTIONS):
            await send.send(message(id=number, method="ping"))
            await read.receive()
        assert not watch.lost.is_set()
        await send.send(message(id=999, method="ping"))
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
        assert watch.lost.is_set()
        assert watch.why == "It asks more than it hears answers to."


async def test_the_end_of_a_transport_is_noticed() -> None:
    async with streams() as (send, read, _, watch):
        send.close()
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
        assert watch.lost.is_set()


async def test_a_list_of_tools_is_read_without_what_is_none_and_what_results_must_look_like() -> None:
    fine = {"name": "fine", "inputSchema": {"type": "object"}, "outputSchema": {"$ref": "#"}}
    async with streams() as (send, read, _, _):
        await send.send(message(id=1, result={"tools": [fine, {"name": "x"}, 7, {"inputSchema": {"type": "object"}}]}))
        got = (await read.receive()).message.result
        assert got == {"tools": [{"name": "fine", "inputSchema": {"type": "object"}}]}


# --- bodies ---


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (answer(b"{}", "application/json", Content_Encoding="gzip"), "The server sends its answers compressed"),
        (answer(b"[" + b"0," * 5000 + b"0]", "application/json"), "more than"),
    ],
)
async def test_a_body_is_neither_compressed_nor_endless(monkeypatch: pytest.MonkeyPatch, page: bytes, why: str) -> None:
    monkeypatch.setattr("agentcore.mcp.http.MAX_MESSAGE_BYTES", 1000)
    async with web_server() as web, pool(Timing(connect_s=60.0, delays_s=(3600.0,))) as servers:
        web.pages["/mcp"] = page
        server = servers.use(Target("web", "http", "test", url=f"http://127.0.0.1:{web.port}/mcp"))
        await reached(server, State.FAILED)
        assert server.error is not None
        assert why in server.error


async def test_a_redirect_to_another_place_is_not_followed_with_the_headers() -> None:
    async with web_server() as other, web_server() as web, pool(Timing(delays_s=(3600.0,))) as servers:
        where = f"http://127.0.0.1:{other.port}/mcp"
        web.pages["/mcp"] = answer(b"", status="307 Temporary Redirect", Location=where)
        headers = {"Authorization": "Bearer secret"}
        target = Target("web", "http", "test", url=f"http://127.0.0.1:{web.port}/mcp", headers=headers)
        await reached(servers.use(target), State.FAILED)
        assert other.asked == []
        assert b"Bearer secret" in web.asked[0]


# --- ends ---


async def test_a_task_that_never_began_holds_up_no_close() -> None:
    servers = McpServers(timing=QUICK)
    async with anyio.create_task_group() as tasks:
        servers.adopt(tasks)
        servers.use(odd())
        tasks.cancel_scope.cancel()
    with anyio.fail_after(1):
        await servers.close()


async def test_a_server_that_is_about_to_end_is_not_used_any_more() -> None:
    async with pool() as servers:
        server = servers.use(odd())
        await reached(server, State.READY)
        server.stop()
        assert servers.use(odd()) is not server


async def test_a_closed_view_is_freed_without_the_collector() -> None:
    async with pool() as servers:
        scene = Scene("s", Path("/"), MemoryBlobs(), None)
        one = configured("odd", odd().argv)
        view = SessionServers(servers, [one], scene, ENVIRON, lambda *_: True, lambda _: False)
        await view.look(30)
        assert len(view.definitions()) == 1
        view.close()
        held = weakref.ref(view)
        gc.disable()
        try:
            del view
            assert held() is None
        finally:
            gc.enable()


# --- time, and whom a question is for ---


async def test_neither_questions_nor_what_is_told_meanwhile_move_the_end_of_a_call() -> None:
    patience = Patience(60.0)
    first = patience.scope.deadline
    with patience.waiting_for_person():
        with patience.waiting_for_person():
            patience.heard()
        patience.heard()
        assert patience.scope.deadline == float("inf")
    assert first <= patience.scope.deadline < first + 60.0
    patience._left_s = 0.0
    patience.heard()
    assert patience.scope.deadline <= anyio.current_time()


async def test_a_question_that_may_be_two_sessions_matter_is_nobodys() -> None:
    from mcp_types import ElicitRequestFormParams, ElicitResult

    asked: list[str] = []

    def caller(name: str, session: str) -> Caller:
        async def answer(params: object) -> ElicitResult:
            asked.append(name)
            return ElicitResult(action="accept")

        return Caller(session, answer)

    params = ElicitRequestFormParams.model_validate({"message": "?", "requestedSchema": {"type": "object"}})
    callers, held = Callers(), [caller("one", "a"), caller("other", "a"), caller("third", "b")]

    async def action() -> str:
        """Of an answer to who does not say which call it is about."""
        return (await callers.asked(Any, params)).action

    said = [await action()]
    async with AsyncExitStack() as calls:
        for one in held:
            await calls.enter_async_context(callers.calling(one))
            room._caller.set(None)
            said.append(await action())
    assert said == ["decline", "accept", "accept", "decline"]
    assert asked == ["one", "other"]


async def test_what_is_asked_when_the_call_is_over_is_asked_of_nobody() -> None:
    from mcp_types import ElicitRequestFormParams

    async def answer(params: object) -> Any:
        raise AssertionError("nobody was to be asked")

    one = Caller("a", answer)
    await one.end()
    params = ElicitRequestFormParams.model_validate({"message": "?", "requestedSchema": {"type": "object"}})
    assert (await one.answered(params)).action == "cancel"
