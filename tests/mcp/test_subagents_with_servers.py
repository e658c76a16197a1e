"""MCP servers through subagents: what these have of them, and where."""

import gc
import json
import sys
import weakref
from pathlib import Path

import anyio
import pytest

from agentcore.events import PermissionRequest, ToolEnd
from agentcore.mcp.states import State
from agentcore.origin import Origin
from agentcore.session import Settings
from agentcore.settings.approvals import server_digest
from server.schemas import AnswerBody
from tests.core.test_subagents import repository
from tests.fakes import Turn, call, say, use
from tests.mcp.housed import ALLOW, SDK, Served, by_name, configured, names_in, odd_server, run, served, until
from tests.mcp.serving import ODD, WITHIN_S, odd, reached
from tests.mcp.test_servers import NOBODY, is_alive

pytestmark = pytest.mark.anyio


def task(kind: str = "general-purpose", **more: object) -> Turn:
    return use(call("task", "t1", description="look", prompt="Look.", subagent_type=kind, **more))


async def test_a_subagent_calls_a_servers_tool_through_the_gate_and_the_hooks(tmp_path, monkeypatch) -> None:
    (tmp_path / "config").mkdir()
    heard = tmp_path / "heard"
    (tmp_path / "config" / "settings.toml").write_text(
        '[permissions]\ndeny = ["mcp__sdk__fail(why:secret*)"]\n[[hooks.PreToolUse]]\nmatcher = "mcp__.*"\n'
        '[[hooks.PreToolUse.hooks]]\ntype = "command"\nif = "mcp__sdk__search(words:here*)"\n'
        f'command = "cat >> {heard}"\n'
    )
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        provider = here.house.provider
        calls = [
            call("mcp__sdk__process_id", "c1"),
            call("mcp__sdk__search", "c2", words="here"),
            call("mcp__sdk__fail", "c3", why="secret one"),
            call("mcp__sdk__search", "c4", words="there"),
        ]
        provider.script(task(), use(*calls), say("Looked."), say("Done."))
        events = await run(here, live, "go", [ALLOW, ALLOW])
        label = "general-purpose-1"
        assert {event.agent for event in events if isinstance(event, PermissionRequest)} == {label}
        asked = [event for event in events if isinstance(event, PermissionRequest)]
        assert [(one.tool_name, one.input) for one in asked] == [
            ("mcp__sdk__search", {"words": "here"}),
            ("mcp__sdk__search", {"words": "there"}),
        ]
        told = {one.call_id.removeprefix(f"{label}_"): one for one in events if isinstance(one, ToolEnd)}
        assert [told[one].is_error for one in ("c1", "c2", "c3", "c4", "t1")] == [False, False, True, False, False]
        assert (told["c2"].output, told["c4"].output) == ("here", "there")
        assert "mcp__sdk__fail(why:secret*)" in told["c3"].output
        [before] = [json.loads(line) for line in heard.read_text().splitlines()]
        assert (before["agent_id"], before["tool_name"]) == (label, "mcp__sdk__search")
        servers = [[name for name in names_in(one) if name.startswith("mcp__")] for one in provider.requests[:2]]
        assert servers[0] == servers[1]
        assert names_in(provider.requests[1]) == sorted(names_in(provider.requests[1]))


async def test_a_subagent_that_explores_has_only_what_reads(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        provider = here.house.provider
        provider.script(
            task("explore"),
            use(call("mcp__sdk__process_id", "c1"), call("mcp__sdk__count", "c2", to=1)),
            say("Looked."),
            say("Done."),
        )
        events = await run(here, live, "go")
        servers = [name for name in names_in(provider.requests[1]) if name.startswith("mcp__")]
        assert servers == ["mcp__sdk__environment", "mcp__sdk__process_id"]
        told = {one.call_id.removeprefix("explore-1_"): one.is_error for one in events if isinstance(one, ToolEnd)}
        assert told == {"c1": False, "c2": True, "t1": False}


@pytest.mark.parametrize(("most", "found"), [(1, True), (5, False)])
async def test_very_many_tools_are_found_by_subagents_by_searching(tmp_path, monkeypatch, most, found) -> None:
    """The main agent of this session searches in any case; what counts for a subagent are the tools that it has."""
    monkeypatch.setattr("agentcore.mcp.toolset.MOST_TOOLS", most)
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        provider = here.house.provider
        reads = ["mcp__sdk__environment", "mcp__sdk__process_id"]
        search = call("tool_search", "c0", query="process world count")
        provider.script(
            task("explore"),
            use(search, by_name("c1", "mcp__sdk__process_id"), by_name("c2", "mcp__sdk__count", {"to": 1})),
            say("Looked."),
            say("Done."),
        )
        events = await run(here, live, "go")
        offered = [name for name in names_in(provider.requests[1]) if "mcp" in name or "tool" in name]
        assert offered == (["call_tool", "tool_search"] if found else reads)
        if found:
            told = {one.call_id.removeprefix("explore-1_"): one for one in events if isinstance(one, ToolEnd)}
            assert [(told[one].tool_name, told[one].is_error) for one in ("c1", "c2")] == [
                ("mcp__sdk__process_id", False),
                ("mcp__sdk__count", True),
            ]
            assert told["c0"].output.startswith("mcp__sdk__process_id\n")
            assert "mcp__sdk__count" not in told["c0"].output
            assert "mcp__sdk__search" not in told["c0"].output


@pytest.mark.parametrize(("kind", "asks"), [("general-purpose", True), ("explore", False)])
async def test_what_a_server_asks_in_a_subagents_call_is_asked_in_its_name_if_it_may_ask(
    tmp_path, monkeypatch, kind, asks
) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(
            task(kind), use(call("mcp__odd__echo", "c1", text="x")), say("Looked."), say("Done.")
        )
        answers = [
            AnswerBody(allow=True, answer=["green", "yes"]),
            *(AnswerBody(allow=True, answer=one) for one in "4-"),
        ]
        events = await run(here, live, "go", answers)
        asked = [event for event in events if isinstance(event, PermissionRequest)]
        assert [(one.agent, one.kind) for one in asked] == [(f"{kind}-1", "question")] * (3 if asks else 0)
        [end] = [event for event in events if isinstance(event, ToolEnd) and event.agent]
        filled = {"action": "accept", "content": {"age": 4, "color": "green", "sure": True}}
        assert json.loads(end.output) == (filled if asks else {"action": "decline"})


async def test_a_closed_session_is_freed_with_what_it_and_its_subagents_had_of_servers(tmp_path, monkeypatch) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(
        '[[hooks.PreToolUse]]\nmatcher = "mcp__.*"\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "true"\n'
    )
    gc.disable()
    try:
        async with served(tmp_path, monkeypatch, odd_server()) as here:
            live = await here.house.hub.create(tmp_path / "work", Settings(mode="yolo"))
            echo = use(call("mcp__odd__echo", text="x"))
            here.house.provider.script(echo, task(), echo, say("Looked."), say("Done."))
            await live.outcome_of(live.prompt("go").prompt_id).wait()
            here.house.provider.requests.clear()
            here.views.clear()
            left = [weakref.ref(part) for part in (live, live.agent, live.agent.log)]
            await here.house.hub.close(live, "deleted")
            del live
            await until(lambda: all(part() is None for part in left))
    finally:
        gc.enable()


# --- what comes and goes while it works ---


@pytest.mark.parametrize("kind", ["general-purpose", "explore"])
async def test_a_subagent_has_what_a_server_offers_by_now_as_far_as_its_kind_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    late = configured("odd", odd().argv, Origin(".mcp.json", Path("/"), is_shared=True))
    async with served(tmp_path, monkeypatch, SDK, late) as here:
        live, provider = await here.house.session(mode="yolo"), here.house.provider
        more = anyio.Event()
        provider.script(
            task(kind),
            held_by(more, use(call("mcp__sdk__process_id", "c1"))),
            use(call("mcp__odd__echo", "c2", text="x"), call("mcp__sdk__grown_0", "c3")),
            say("Looked."),
            say("Done."),
        )
        live.prompt("go")
        await until(lambda: len(provider.requests) == 2)
        [view] = here.views
        here.approved.add(server_digest(late))
        await view.look(WITHIN_S)
        connection = await view._held["sdk"].connection(1)
        await connection.call("grow", {"number": 1}, lambda text: None, NOBODY)
        await reached(view._held["sdk"], State.READY, tools=11)
        more.set()
        await until(lambda: not live.is_busy)
        before, after = names_in(provider.requests[1]), names_in(provider.requests[2])
        grown = {"mcp__sdk__grown_0"} if kind == "general-purpose" else set()
        assert "mcp__odd__echo" not in before
        assert set(after) - set(before) == {"mcp__odd__echo"} | grown
        assert after == sorted(after)
        told = {end.call_id.rpartition("_")[2]: end.is_error for end in tool_ends(here, live)}
        assert told == {"c1": False, "c2": False, "c3": not grown, "t1": False}


async def test_the_beginning_of_a_subagents_requests_is_the_same_while_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, odd_server()) as here:
        live, provider = await here.house.session(mode="yolo"), here.house.provider
        echo = use(call("mcp__odd__echo", text="x"))
        provider.script(task(), echo, echo, say("Looked."), say("Done."))
        await run(here, live, "go")
        one, two, three = (request.tools for request in provider.requests[1:4])
        assert one is two is three


# --- in a worktree ---


async def test_in_a_worktree_a_command_is_run_there_and_told_of_it_and_ended_with_the_subagent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    repository(work)
    monkeypatch.setattr("agentcore.mcp.tool.RECONNECT_S", 0.0)  # a first start may take longer than a second
    async with served(tmp_path, monkeypatch, odd_server("places")) as here:
        live = await here.house.session(mode="yolo")
        echo = call("mcp__odd__echo", text="x")
        here.house.provider.script(
            use(echo),
            task(isolation="worktree"),
            use(echo),
            use(echo),
            say("Looked."),
            use(echo),
            say("Done."),
        )
        await run(here, live, "go")
        mine, *its, again = (json.loads(end.output) for end in tool_ends(here, live) if end.tool_name != "task")
        there = work / ".claude" / "worktrees" / f"{live.id}-general-purpose-1"
        assert mine == again == {"cwd": str(work), "roots": [work.as_uri()], "pid": mine["pid"]}
        assert its == [{"cwd": str(there), "roots": [there.as_uri()], "pid": its[0]["pid"]}] * 2
        assert is_alive(mine["pid"])
        assert not is_alive(its[0]["pid"])
        assert not there.exists()
        assert len(here.pool.describe()) == 1


async def test_in_a_worktree_a_server_that_is_given_the_project_has_the_worktree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `mcp-server-git` from the registry, which keeps to the repository that its command line names."""
    work = tmp_path / "work"
    repository(work)
    program = str(Path(sys.executable).parent / "mcp-server-git")
    async with served(tmp_path, monkeypatch, configured("git", (program, "--repository", str(work)))) as here:
        live = await here.house.session(mode="yolo")
        there = work / ".claude" / "worktrees" / f"{live.id}-general-purpose-1"
        here.house.provider.script(
            task(isolation="worktree"),
            use(call("write", "w", file_path="new.txt", content="new")),
            use(
                call("mcp__git__git_add", "a", repo_path=str(there), files=["new.txt"]),
                call("mcp__git__git_add", "b", repo_path=str(work), files=["kept.txt"]),
            ),
            use(call("mcp__git__git_status", "s", repo_path=str(there))),
            say("Written."),
            say("Done."),
        )
        await run(here, live, "go")
        told = {end.call_id.rpartition("_")[2]: end for end in tool_ends(here, live)}
        assert not told["a"].is_error, told["a"].output
        assert "new file:   new.txt" in told["s"].output
        assert told["b"].is_error
        assert not (work / "new.txt").exists()


async def test_in_a_worktree_nothing_is_started_that_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "work")
    async with served(tmp_path, monkeypatch, odd_server()) as here:
        live, used = await here.house.session(mode="yolo"), list[Path | None]()
        use_of = here.pool.use
        monkeypatch.setattr(here.pool, "use", lambda target: (used.append(target.folder), use_of(target))[1])
        here.house.provider.script(task(isolation="worktree"), say("Looked."), say("Done."))
        await run(here, live, "go")
        assert "mcp__odd__echo" in names_in(here.house.provider.requests[1])
        assert set(used) <= {tmp_path / "work"}


async def test_a_server_that_cannot_run_in_a_worktree_is_not_called_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    repository(work)
    (work / "tool.py").write_bytes(ODD.read_bytes())  # not committed, so it is not in a worktree
    argv = odd().argv
    async with served(tmp_path, monkeypatch, configured("odd", (*argv[:2], "tool.py"))) as here:
        live = await here.house.session(mode="yolo")
        echo = use(call("mcp__odd__echo", text="x"))
        here.house.provider.script(echo, task(isolation="worktree"), echo, say("Looked."), say("Done."))
        await run(here, live, "go")
        mine, its, _ = tool_ends(here, live)
        assert not mine.is_error
        assert its.is_error
        assert its.output.startswith("The MCP server odd is not connected")


async def test_a_cancelled_call_in_a_worktree_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    repository(work)
    async with served(tmp_path, monkeypatch, odd_server("silent")) as here:
        live = await here.house.session(mode="yolo")
        here.house.provider.script(task(isolation="worktree"), use(call("mcp__odd__echo", text="x")))
        live.prompt("go")
        await until(lambda: [one.state for one in here.pool.describe()] == ["ready", "ready"])
        servers = here.pool._servers.values()
        [apart] = [one for one in servers if one.target.folder != work]
        pid = (await apart.connection(1)).process_id
        assert pid is not None
        live.cancel()
        await until(lambda: not live.is_busy)
        assert not is_alive(pid)
        assert len(here.pool.describe()) == 1
        assert not (work / ".claude").exists()


def held_by(event: anyio.Event, turn: Turn) -> Turn:
    turn.opens = event
    return turn


def tool_ends(here: Served, live: object) -> list[ToolEnd]:
    return [event for event in here.house.events(live) if isinstance(event, ToolEnd)]
