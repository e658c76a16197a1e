"""MCP servers, owned one by one: connected in the background, lost, connected again, ended."""

import os
from pathlib import Path

import anyio
import pytest

from agentcore.mcp.callers import Caller
from agentcore.mcp.connection import Connection, Gone, Refused
from agentcore.mcp.states import State, Timing
from agentcore.mcp.targets import Target
from tests.mcp.serving import ENVIRON, WITHIN_S, http_server, odd, pool, reached, ready, sdk

pytestmark = pytest.mark.anyio


async def decline(params: object) -> object:
    raise AssertionError("nobody was to be asked")


NOBODY = Caller("s", decline)


async def say(connection: Connection, tool: str, **input: object) -> str:
    with anyio.fail_after(WITHIN_S):
        result = await connection.call(tool, input, lambda text: None, NOBODY)
    return "\n".join(block.text for block in result.content if block.type == "text")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [(), ("sse",)])
async def test_a_server_over_http_is_used_like_any_other(how: tuple[str, ...]) -> None:
    with http_server(*how) as (port, process):
        path = "sse" if how else "mcp"
        async with pool() as servers:
            target = Target("web", "sse" if how else "http", "test", url=f"http://127.0.0.1:{port}/{path}")
            server = await ready(servers, target)
            assert await say(await server.connection(1), "process_id") == str(process.pid)


async def test_many_users_of_one_configuration_share_one_process() -> None:
    async with pool() as servers:
        users = [servers.use(sdk()) for _ in range(10)]
        await reached(users[0], State.READY)
        told = {await say(await server.connection(1), "process_id") for server in users}
        assert len(told) == 1
        assert [(one.name, one.state, one.tools) for one in servers.describe()] == [("sdk", "ready", 10)]


async def test_two_folders_have_a_process_each(tmp_path: Path) -> None:
    async with pool() as servers:
        one, other = await ready(servers, odd(folder=tmp_path)), await ready(servers, odd(folder=Path("/")))
        pids = {(await server.connection(1)).process_id for server in (one, other)}
        assert len(pids) == 2


async def test_a_server_that_dies_in_a_call_fails_it_and_is_connected_again() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("dies"))
        before = (await server.connection(1)).process_id
        with pytest.raises(Gone):
            await say(await server.connection(1), "echo", text="x")
        with anyio.fail_after(WITHIN_S):
            while (await server.connection(WITHIN_S)).process_id == before:
                await server.wait_moved()
        assert server.state is State.READY


async def test_all_calls_that_go_on_when_a_server_dies_fail_and_later_ones_reach_the_next(tmp_path: Path) -> None:
    async with pool() as servers:
        server = await ready(servers, sdk())
        connection, failed = await server.connection(1), list[type[Exception]]()

        async def wait(number: int) -> None:
            try:
                await say(connection, "wait", file=str(tmp_path / str(number)))
            except (Gone, Refused) as error:
                failed.append(type(error))

        with anyio.fail_after(WITHIN_S):
            async with anyio.create_task_group() as calls:
                for number in range(3):
                    calls.start_soon(wait, number)
                while len([*tmp_path.iterdir()]) < 3:  # noqa: ASYNC110 - files of another process
                    await anyio.sleep(0.01)
                with pytest.raises(Gone):
                    await say(connection, "die")
        assert failed == [Gone] * 3
        again = await server.connection(WITHIN_S)
        assert again is not connection
        assert await say(again, "process_id") == str(again.process_id)
        with pytest.raises(Gone):
            await say(connection, "process_id")


@pytest.mark.parametrize("habits", [("hangs",), ("hangs", "stays"), ("forks",)])
async def test_close_while_it_is_connected_leaves_no_process(tmp_path: Path, habits: tuple[str, ...]) -> None:
    mark = tmp_path / "pid"
    target = odd(*habits)
    argv = ("/bin/sh", "-c", f'echo $$ > {mark}; exec "$@"', "sh", *target.argv)
    async with pool(Timing(connect_s=3600.0)) as servers:
        servers.use(Target("odd", "stdio", "test", argv, ENVIRON, Path("/")))
        with anyio.fail_after(WITHIN_S):
            while not (mark.exists() and mark.read_text().strip()):  # noqa: ASYNC110 - a file of another process
                await anyio.sleep(0.001)
    assert not is_alive(int(mark.read_text()))


async def test_a_server_that_says_without_end_that_it_changed_is_looked_at_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And goes on answering meanwhile."""
    async with pool(Timing(connect_s=60.0, settle_s=0.02, relist_s=1.0, idle_s=3600.0)) as servers:
        slept, sleep, enough = list[float](), anyio.sleep, anyio.Event()

        async def counted(delay_s: float) -> None:
            if delay_s >= 1.0:
                slept.append(delay_s)
                if len(slept) == 9:
                    enough.set()
                delay_s = 0.05 if len(slept) < 9 else 3600.0
            await sleep(delay_s)

        monkeypatch.setattr("agentcore.mcp.server.anyio.sleep", counted)
        server = await ready(servers, odd("restless"))
        with anyio.fail_after(WITHIN_S):
            await enough.wait()
        assert slept == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
        assert await say(await server.connection(1), "echo", text="x") == "x"


async def test_what_was_lost_goes_on_offering_its_tools_until_it_is_given_up(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text(f'#!/bin/sh\nexec {odd().argv[0]} -I {odd().argv[2]} "$@"\n')
    program.chmod(0o700)
    slow = Timing(connect_s=60.0, delays_s=(3600.0,))
    async with pool(slow) as servers:
        server = await ready(servers, Target("odd", "stdio", "test", (str(program),), ENVIRON, tmp_path))
        offer, pid = server.offer, (await server.connection(1)).process_id
        program.unlink()
        assert pid is not None
        os.kill(pid, 9)
        await reached(server, State.LOST)
        assert server.offer is offer
    async with pool(Timing(connect_s=60.0, delays_s=(0.0, 0.0, 3600.0))) as servers:
        server = servers.use(Target("odd", "stdio", "test", (str(program),), ENVIRON, tmp_path))
        await reached(server, State.FAILED)
        assert server.offer.tools == ()
        assert server.error == f"It cannot be started: {program}: No such file or directory."


async def test_a_dead_server_over_http_is_noticed_and_connected_again() -> None:
    async with pool() as servers:
        with http_server() as (port, _):
            server = await ready(servers, Target("web", "http", "test", url=f"http://127.0.0.1:{port}/mcp"))
            connection = await server.connection(1)
        with pytest.raises((Gone, Refused)):
            await say(connection, "process_id")
        await reached(server, State.FAILED)
        server.wake()
        with http_server(port=port) as (_, process):
            with anyio.fail_after(WITHIN_S):
                while server.state is not State.READY:
                    await server.wait_moved()
                    server.wake()
            assert await say(await server.connection(WITHIN_S), "process_id") == str(process.pid)


async def test_a_dead_server_over_http_is_noticed_also_when_nobody_calls_it() -> None:
    async with pool() as servers:
        with http_server() as (port, _):
            server = await ready(servers, Target("web", "http", "test", url=f"http://127.0.0.1:{port}/mcp"))
        await reached(server, State.FAILED)
        assert server.error == "It cannot be reached: All connection attempts failed."


async def test_a_start_that_hangs_is_given_up_and_nobody_waits_for_it() -> None:
    async with pool(Timing(connect_s=1.0, delays_s=(3600.0,))) as servers:
        server = servers.use(odd("hangs"))
        with pytest.raises(Gone):
            await server.connection(0)
        await reached(server, State.FAILED)
        assert server.error == "It did not answer within 1 s."


async def test_why_a_server_does_not_start_is_told_without_its_secrets() -> None:
    async with pool(Timing(connect_s=60.0, delays_s=(3600.0,))) as servers:
        target = odd("refuses")
        server = servers.use(Target(**{**_fields(target), "secrets": ("hunter2hunter2",)}))
        await reached(server, State.FAILED)
        assert server.error is not None
        assert server.error.endswith("Its last words: no key in TESTER_KEY=[redacted]")


def _fields(target: Target) -> dict[str, object]:
    return {name: getattr(target, name) for name in Target.__slots__}


async def test_a_batch_of_changes_is_looked_at_once_or_twice() -> None:
    async with pool() as servers:
        server = await ready(servers, sdk())
        connection, looks = await server.connection(1), 0
        before = connection.tools

        async def counted() -> object:
            nonlocal looks
            looks += 1
            return await before()

        connection.tools = counted
        await say(connection, "grow", number=25)
        await reached(server, State.READY, tools=35)
        assert looks <= 3
        await say(connection, "shrink")
        await reached(server, State.READY, tools=10)


async def test_a_flood_is_not_kept_and_the_answer_behind_it_comes() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("floods"))
        told: list[str] = []
        connection = await server.connection(1)
        with anyio.fail_after(WITHIN_S):
            result = await connection.call("echo", {"text": "x"}, told.append, NOBODY)
        assert result.content[0].type == "text"
        assert len(told) == 500


@pytest.mark.parametrize(
    ("habit", "why"),
    [
        ("endless", "It sent a message of more than 32 MiB."),
        ("heavy", "It sent a message of more than 2,000,000 values."),
        ("pings", "It asks more than it hears answers to."),
    ],
)
async def test_what_nobody_could_keep_ends_the_connection(habit: str, why: str) -> None:
    async with pool(Timing(connect_s=60.0, delays_s=(3600.0,))) as servers:
        server = await ready(servers, odd(habit))
        with pytest.raises(Gone):
            await say(await server.connection(1), "echo", text="x")
        await reached(server, State.LOST)
        assert server.error == why


async def test_a_server_that_cannot_list_its_prompts_has_its_tools() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("half-done"))
        assert (server.offer.names, server.offer.prompts) == (("echo",), {})


async def test_a_list_without_an_end_is_read_for_a_while() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("pages"))
        assert len(server.offer.tools) == 50


async def test_what_a_server_prints_where_messages_belong_is_passed_over() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("prints"))
        assert await say(await server.connection(1), "echo", text="fine") == "fine"


async def test_results_are_not_held_to_a_schema_of_the_server() -> None:
    async with pool() as servers:
        server = await ready(servers, odd())
        assert await say(await server.connection(1), "echo", text="free") == "free"


async def test_a_hostile_schema_is_left_out_or_looked_at_from_outside() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("hostile"))
        assert server.offer.names == ("bomb", "echo", "loop")
        assert server.offer.left_out == (
            "The tool 'no object' is left out: `inputSchema.type` makes no sense.",
            "The tool 'remote' is left out: its input schema refers to another document, which is not followed.",
            "The tool 'local' is left out: its input schema refers to another document, which is not followed.",
        )


async def test_a_schema_that_is_nested_too_deeply_costs_its_tool_alone() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("deep"))
        assert server.offer.names == ("echo",)
        assert server.offer.left_out == (
            "The tool 'deep220' is left out: it is nested too deeply.",
            "The tool 'deep300' is left out: it is nested too deeply.",
            "The tool 'deep150' is left out: its input schema is nested too deeply.",
        )
        assert await say(await server.connection(1), "echo", text="x") == "deep"


async def test_what_makes_no_sense_in_a_list_is_left_out_and_named() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("slips"))
        assert server.offer.names == ("echo",)
        assert list(server.offer.prompts) == ["fine"]
        assert server.offer.left_out == (
            "The tool 'required' is left out: `inputSchema.required.0` makes no sense.",
            "The tool 'properties' is left out: `inputSchema.properties` makes no sense.",
            "The tool 'described' is left out: `description` makes no sense.",
            "A tool without a name is left out: `name` makes no sense.",
            "A prompt without a name is left out: `name` makes no sense.",
            "The prompt 'x' is left out: `arguments` makes no sense.",
        )


@pytest.mark.parametrize("habits", [(), ("stays",), ("forks",), ("silent",)])
async def test_close_leaves_no_process(habits: tuple[str, ...]) -> None:
    async with pool() as servers:
        server = await ready(servers, odd(*habits))
        pid = (await server.connection(1)).process_id
        assert pid is not None
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        assert len(children) == ("forks" in habits)
    assert not any(is_alive(one) for one in (pid, *children))


async def test_a_server_that_nobody_uses_any_more_is_stopped_after_a_while() -> None:
    async with pool(Timing(connect_s=60.0, idle_s=0.0)) as servers:
        server = await ready(servers, odd())
        servers.use(odd()).let_go()
        assert server.state is State.READY
        server.let_go()
        with anyio.fail_after(WITHIN_S):
            await server.ended.wait()
        assert servers.describe() == []
        again = await ready(servers, odd())
        assert again is not server


async def test_nothing_is_left_of_a_hundred_lives_of_a_server() -> None:
    async with pool(Timing(connect_s=60.0, idle_s=0.0)) as servers:
        for number in range(100):
            server = await ready(servers, odd())
            server.let_go()
            with anyio.fail_after(WITHIN_S):
                await server.ended.wait()
            if number == 1:
                before = _held()
        assert _held() == before


def _held() -> tuple[int, int, int]:
    """File handles, tasks and children of this process."""
    import asyncio

    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len([*Path("/proc/self/fd").iterdir()]), len(asyncio.all_tasks()), len(children)
