"""MCP servers through a session: its model, its gate, the questions to a person, and what everybody is told."""

import json
from pathlib import Path

import anyio
import pytest

from agentcore.events import Notice, PermissionRequest, ToolEnd, ToolOutputDelta, ToolStart, UserMessage
from agentcore.mcp.offers import Offer
from agentcore.mcp.states import State, Timing
from agentcore.messages import Image, Text
from agentcore.origin import Origin
from agentcore.settings.approvals import server_digest
from tests.fakes import call, say, use
from tests.mcp.housed import ALLOW, SDK, by_name, configured, ends, names_in, odd_server, run, served, until
from tests.mcp.serving import WITHIN_S, odd, reached

pytestmark = pytest.mark.anyio
TWINS = ("READ", "Read", "read")


async def test_a_servers_tool_is_called_like_any_other(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server()) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="hello")), say("Done."))
        events = await run(here, live, "go")
        assert ends(events) == [("mcp__odd__echo", "hello", False)]
        [definition] = [tool for tool in here.house.provider.requests[0].tools if tool.name == "mcp__odd__echo"]
        assert definition.description == "Say it again."
        assert definition.input_schema["required"] == ["text"]
        assert names_in(here.house.provider.requests[0]) == sorted(names_in(here.house.provider.requests[0]))


async def test_what_makes_no_sense_of_a_server_is_told_once_and_the_rest_works(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("slips")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="hello")), say("Done."), say("Done."))
        events = await run(here, live, "go")
        assert ends(events) == [("mcp__odd__echo", "hello", False)]
        events += await run(here, live, "again")
        [notice] = [event for event in events if isinstance(event, Notice) and event.code == "mcp_unavailable"]
        assert notice.text.startswith(
            "Of the MCP server odd not all can be used. The tool 'required' is left out: `inputSchema.required.0` makes"
            " no sense. The tool 'properties' is left out:"
        )
        assert notice.text.endswith("And 1 more.")


async def test_a_wrong_input_is_answered_before_anybody_is_asked(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server()) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text=1)), say("Done."))
        events = await run(here, live, "go")
        assert ends(events) == [
            ("mcp__odd__echo", 'The input of mcp__odd__echo is not valid:\n- text: 1 is not of type "string"', True)
        ]


@pytest.mark.parametrize(
    ("tool", "asks"), [("process_id", False), ("environment", False), ("search", True), ("fail", True)]
)
async def test_what_only_reads_and_stays_here_needs_no_question(tmp_path, monkeypatch, tool, asks) -> None:
    input = {"search": {"words": "x"}, "fail": {"why": "no"}}.get(tool, {})
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        here.house.provider.script(use(call(f"mcp__sdk__{tool}", **input)), say("Done."))
        events = await run(here, live, "go", [ALLOW])
        asked = [event for event in events if isinstance(event, PermissionRequest)]
        assert bool(asked) is asks
        assert all(one.suggested_rules == (f"mcp__sdk__{tool}",) for one in asked)
        [(_, output, is_error)] = ends(events)
        assert is_error is (tool == "fail")
        if tool == "environment":
            assert set(output.split()) >= {"AGENTCORE_CALL", "HOME", "PATH"}
            assert set(output.split()) <= {"AGENTCORE_CALL", "HOME", "PATH", "LC_CTYPE"}


async def test_a_rule_for_a_server_takes_its_tools_away(tmp_path, monkeypatch) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text('[permissions]\ndeny = ["mcp__odd"]\n')
    async with served(tmp_path, monkeypatch, odd_server(), odd_server(name="other")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        servers = [name for name in names_in(here.house.provider.requests[0]) if name.startswith("mcp__")]
        assert servers == ["mcp__other__echo"]
        assert ends(events)[0][2]


async def test_tools_that_differ_by_case_alone_are_each_called_by_a_name_of_their_own(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("twins")) as here:
        live = await here.house.session()
        names = ["mcp__odd__READ_3f5637", "mcp__odd__Read_9b9a8d", "mcp__odd__read"]
        calls = [call(name, f"c{number}", text="x") for number, name in enumerate(names)]
        here.house.provider.script(use(*calls), say("Done."))
        events = await run(here, live, "go")
        assert [name for name in names_in(here.house.provider.requests[0]) if name.startswith("mcp")] == names
        assert sorted(ends(events)) == [(name, tool, False) for name, tool in zip(names, TWINS, strict=True)]


async def test_progress_is_shown_while_the_call_runs(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        here.house.provider.script(use(call("mcp__sdk__count", to=3)), say("Done."))
        events = await run(here, live, "go")
        told = "".join(event.text for event in events if isinstance(event, ToolOutputDelta))
        assert sorted(told.splitlines()) == ["number 1", "number 2", "number 3"]
        assert ends(events) == [("mcp__sdk__count", "counted to 3", False)]


async def test_a_flood_of_progress_is_shown_as_far_as_anybody_reads_it(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("floods")) as here:
        monkeypatch.setattr("agentcore.mcp.tool.MAX_PROGRESS", 20)
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        assert sum(isinstance(event, ToolOutputDelta) for event in events) == 20
        assert ends(events) == [("mcp__odd__echo", "flooded", False)]


async def test_cancelling_a_run_is_told_to_the_server(tmp_path, monkeypatch) -> None:
    file = tmp_path / "told"
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        here.house.provider.script(use(call("mcp__sdk__wait", file=str(file))))
        live.prompt("go")
        await until(lambda: file.exists() and file.read_text() == "waits")
        live.cancel()
        await until(lambda: file.read_text() == "cancelled" and not live.is_busy)


async def test_a_call_without_an_answer_is_given_up_in_time(tmp_path, monkeypatch) -> None:
    server = odd_server("silent")
    object.__setattr__(server, "timeout_ms", 50.0)
    async with served(tmp_path, monkeypatch, server) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        assert ends(events) == [
            ("mcp__odd__echo", "mcp__odd__echo did not answer within 0.05 s and was stopped.", True)
        ]


async def test_a_server_that_dies_in_a_call_fails_the_call_alone(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("dies")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        [(_, output, is_error)] = ends(events)
        assert is_error
        assert output.startswith(
            "The connection to the MCP server odd ended during this call. It may have taken effect"
        )
        assert events[-2].type == "done"


async def test_pictures_reach_the_model_as_pictures(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        here.house.provider.script(use(call("mcp__sdk__pictures", number=5)), say("Done."))
        events = await run(here, live, "go")
        [end] = [event for event in events if isinstance(event, ToolEnd)]
        assert [type(one) for one in end.attachments] == [Image] * 4
        assert end.output == "look\n[picture (image/png) is not shown: more than 4 in one answer]"


# --- what is shared ---


async def test_ten_sessions_share_one_process(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        told = set()
        for _ in range(10):
            live = await here.house.session()
            here.house.provider.script(use(call("mcp__sdk__process_id")), say("Done."))
            told.add(ends(await run(here, live, "go"))[0][1])
        assert len(told) == 1
        assert len(here.pool.describe()) == 1


async def test_closed_sessions_let_their_servers_go(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server(), timing=Timing(connect_s=60.0, idle_s=0.0)) as here:
        lives = [await here.house.session() for _ in range(2)]
        for live in lives:
            await run(here, live, "go")
        [server] = here.views[0]._held.values()
        for live in lives:
            assert server.state is State.READY
            await here.house.hub.close(live, "closed")
        with anyio.fail_after(WITHIN_S):
            await server.ended.wait()
        assert here.pool.describe() == []


async def test_a_server_of_a_repository_runs_once_it_is_approved_and_until_that_is_taken_back(
    tmp_path, monkeypatch
) -> None:
    shared = configured("odd", odd().argv, Origin(".mcp.json", Path("/"), is_shared=True))
    async with served(tmp_path, monkeypatch, shared) as here:
        live = await here.house.session()
        await run(here, live, "one")
        assert here.pool.describe() == []
        assert "mcp__odd__echo" not in names_in(here.house.provider.requests[-1])
        here.approved.add(server_digest(shared))
        await run(here, live, "two")
        assert "mcp__odd__echo" in names_in(here.house.provider.requests[-1])
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        here.house.provider.requests.clear()
        here.approved.clear()
        events = await run(here, live, "three")
        assert ends(events)[0][2]
        assert "mcp__odd__echo" not in names_in(here.house.provider.requests[0])


# --- what is told ---


async def test_the_beginning_of_requests_is_the_same_until_a_server_changes(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session(mode="yolo")
        provider = here.house.provider
        provider.script(use(call("mcp__sdk__process_id")), use(call("mcp__sdk__grow", number=3)), say("Done."))
        await run(here, live, "go")
        assert provider.requests[0].tools is provider.requests[1].tools
        await reached(here.views[0]._held["sdk"], State.READY, tools=13)
        events = await run(here, live, "more")
        more = set(names_in(provider.requests[-1])) - set(names_in(provider.requests[0]))
        assert more == {f"mcp__sdk__grown_{n}" for n in range(3)}
        told = [event.text for event in here.house.events(live) if isinstance(event, Notice)]
        assert told == ["The MCP server sdk changed its tools: +grown_0, +grown_1, +grown_2."]
        assert [event.code for event in here.house.events(live) if isinstance(event, Notice)] == ["mcp_changed"]
        assert events[-1].type == "status"


async def test_a_run_does_not_wait_long_for_a_server_and_says_so(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("hangs"), start_s=0.1) as here:
        live = await here.house.session()
        events = await run(here, live, "go")
        told = [(event.code, event.text) for event in events if isinstance(event, Notice)]
        assert told == [("mcp_unavailable", "The MCP server odd is still starting; its tools come when it is there.")]
        monkeypatch.setattr("agentcore.run.SERVERS_START_S", 3600.0)  # it was waited for once: no run does so again
        assert not [event for event in await run(here, live, "again") if isinstance(event, Notice)]


async def test_a_server_that_cannot_be_configured_is_told_and_the_others_work(tmp_path, monkeypatch) -> None:
    broken = configured("broken", ("${NO_SUCH_VARIABLE}",))
    async with served(tmp_path, monkeypatch, broken, odd_server()) as here:
        live = await here.house.session()
        events = await run(here, live, "go")
        assert [event.text for event in events if isinstance(event, Notice)] == [
            "The MCP server broken cannot be used: The MCP server broken needs the variable NO_SUCH_VARIABLE, which is"
            " not set."
        ]
        assert "mcp__odd__echo" in names_in(here.house.provider.requests[0])


async def test_a_run_that_waits_for_a_server_is_cancelled_at_once(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("hangs"), start_s=3600.0) as here:
        live = await here.house.session()
        live.prompt("go")
        await until(lambda: live.agent.awaited_servers == ("odd",))
        live.cancel()
        await until(lambda: not live.is_busy)
        assert live.agent.awaited_servers == ()
        [done] = [event for event in here.house.events(live) if event.type == "done"]
        assert done.stop_reason == "interrupted"
        assert here.house.provider.requests == []


async def test_a_session_is_closed_while_its_server_starts(tmp_path, monkeypatch) -> None:
    timing = Timing(connect_s=3600.0, idle_s=0.0)
    async with served(tmp_path, monkeypatch, odd_server("hangs"), timing=timing, start_s=3600.0) as here:
        live = await here.house.session()
        live.prompt("go")
        await until(lambda: live.agent.awaited_servers == ("odd",))
        [server] = here.views[0]._held.values()
        with anyio.fail_after(WITHIN_S):
            await here.house.hub.close(live, "closed")
            await server.ended.wait()
        assert here.pool.describe() == []


# --- many tools ---


async def test_very_many_tools_are_found_by_searching_and_called_as_themselves(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("agentcore.mcp.toolset.MOST_TOOLS", 5)
    (tmp_path / "config").mkdir()
    heard = tmp_path / "heard"
    hook = f'[[hooks.{{}}]]\nmatcher = "{{}}"\n[[hooks.{{}}.hooks]]\ntype = "command"\ncommand = "cat >> {heard}"\n'
    (tmp_path / "config" / "settings.toml").write_text(
        '[permissions]\ndeny = ["mcp__sdk__fail(why:secret*)"]\n'
        + hook.format("PreToolUse", "mcp__sdk__process_id", "PreToolUse")
        + hook.format("PostToolBatch", "", "PostToolBatch")
    )
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        provider = here.house.provider
        provider.script(
            use(call("tool_search", query="process id")),
            use(by_name("c1", "mcp__sdk__process_id")),
            use(by_name("c2", "mcp__sdk__fail", input={"why": "because"})),
            use(by_name("c3", "mcp__sdk__search", input={"words": 1})),
            use(by_name("c4", "mcp__sdk__none")),
            use(by_name("c5", "bash", input={"command": "true"})),
            use(by_name("c6", "mcp__sdk__fail", {"why": "secret one"})),
            say("Done."),
        )
        events = await run(here, live, "go", [ALLOW])
        offered = [name for name in names_in(provider.requests[0]) if "mcp" in name or "tool" in name]
        assert offered == ["call_tool", "tool_search"]
        found, one, two, three, four, five, six = ends(events)
        assert found[1].startswith('mcp__sdk__process_id\nSay the id of the process.\ninput: {"type":"object"')
        assert one[0] == "mcp__sdk__process_id"
        assert not one[2]
        [asked] = [event for event in events if isinstance(event, PermissionRequest)]
        assert (asked.tool_name, asked.input, asked.suggested_rules) == (
            "mcp__sdk__fail",
            {"why": "because"},
            ("mcp__sdk__fail",),
        )
        assert two == ("mcp__sdk__fail", "Error executing tool fail", True)
        assert three[:2] == (
            "mcp__sdk__search",
            'The input of mcp__sdk__search is not valid:\n- words: 1 is not of type "string"',
        )
        assert four[0] == "mcp__sdk__none"
        assert four[2]
        assert five == ("call_tool", "call_tool runs tools whose name begins with mcp__. Call bash by itself.", True)
        assert six[0] == "mcp__sdk__fail"
        assert "mcp__sdk__fail(why:secret*)" in six[1]
        told = [json.loads(line) for line in heard.read_text().replace("}{", "}\n{").splitlines()]
        [before] = [one for one in told if one["hook_event_name"] == "PreToolUse"]
        assert (before["tool_name"], before["tool_input"]) == ("mcp__sdk__process_id", {})
        batches = [one["tool_calls"][0]["tool_name"] for one in told if one["hook_event_name"] == "PostToolBatch"]
        assert batches == ["tool_search", *(name for name, _, _ in (one, two, three, four, five, six))]
        started = [event.tool_name for event in events if isinstance(event, ToolStart)]
        assert started == ["tool_search", "mcp__sdk__process_id", "mcp__sdk__fail", "call_tool"]
        assert len({json.dumps([tool.model_dump() for tool in one.tools]) for one in provider.requests}) == 1


async def test_a_server_that_changes_leaves_the_beginning_of_a_searching_session_as_it_is(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("agentcore.mcp.toolset.MOST_TOOLS", 5)
    async with served(tmp_path, monkeypatch, SDK, odd_server()) as here:
        live = await here.house.session(mode="yolo")
        await run(here, live, "one")
        view = here.views[0]
        before = here.house.provider.requests[-1].tools
        view._held["sdk"].offer = Offer()  # as if it was given up: one tool is left
        await run(here, live, "two")
        assert here.house.provider.requests[-1].tools is before


# --- resources and prompts ---


async def test_a_resource_is_mentioned_by_its_server(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        events = await run(here, live, "Look at @sdk:note://one and @none:x, and @sdk:note://two.")
        [message] = [event for event in events if isinstance(event, UserMessage)]
        texts = [block.text for block in message.content if isinstance(block, Text)]
        assert texts[0] == '<resource server="sdk" uri="note://one">\n[note://one]\nthe first note\n</resource>'
        assert message.display_text == "Look at @sdk:note://one and @none:x, and @sdk:note://two."
        [notice] = [event for event in events if isinstance(event, Notice)]
        assert notice.code == "mention_ignored"
        assert notice.text.startswith("@sdk:note://two is not shown to the model: the MCP server sdk refused")


async def test_a_prompt_of_a_server_is_called_by_its_name(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        events = await run(here, live, '/mcp__sdk__greet "Ann Lee" very warmly')
        [message] = [event for event in events if isinstance(event, UserMessage)]
        texts = [block.text for block in message.content if isinstance(block, Text)]
        assert texts == [
            '/mcp__sdk__greet "Ann Lee" very warmly',
            '<mcp-prompt name="mcp__sdk__greet">\nGreet Ann Lee very warmly.\n</mcp-prompt>',
        ]
        assert message.display_text == '/mcp__sdk__greet "Ann Lee" very warmly'
        events = await run(here, live, "/mcp__sdk__greet")
        [notice] = [event for event in events if isinstance(event, Notice)]
        assert notice.text == (
            "The prompt /mcp__sdk__greet was not used: it needs name: write /mcp__…__greet name how."
        )
        events = await run(here, live, "/mcp__sdk__nothing at all")
        assert not [event for event in events if isinstance(event, Notice)]
