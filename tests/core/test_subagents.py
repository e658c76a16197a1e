"""Subagents in runs of a session: the order of events, what they share with it, and every way in which they end."""

import gc
import json
import subprocess
import weakref
from pathlib import Path, PurePath

import anyio
import pytest

from agentcore.budget import Ledger, SubagentLedger
from agentcore.events import (
    AssistantMessage,
    Done,
    Notice,
    NumberedEvent,
    PermissionRequest,
    PermissionResolved,
    ToolEnd,
    UsageReport,
    UserMessage,
)
from agentcore.messages import Text, ToolResult
from agentcore.origin import Origin
from agentcore.permissions.protected import is_protected
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import parse_rule
from agentcore.session import Settings
from agentcore.usage import Usage
from agentcore.worktrees import moved
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import LOGGER, logged, script, settings
from tests.fakes import House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

CALLED = ["turn_start", "model_start", "model_end", "usage", "assistant_message"]
LABEL = "general-purpose-1"
YES = AnswerBody(allow=True)


def task(prompt: str = "Look around.", kind: str = "general-purpose", call_id: str = "t1", **more: object) -> Turn:
    return use(call("task", call_id, description="look", prompt=prompt, subagent_type=kind, **more))


def of(events: list[NumberedEvent], agent: str | None) -> list[NumberedEvent]:
    return [event for event in events if event.agent == agent]


def ends(events: list[NumberedEvent]) -> dict[str, ToolEnd]:
    return {event.call_id: event for event in events if isinstance(event, ToolEnd)}


def texts(home: House, request: int) -> str:
    """The texts of the last message that the model got with a request."""
    last = home.provider.requests[request].messages[-1]
    parts = [block.text if isinstance(block, Text) else "" for block in last.content]
    return "\n".join(parts + [block.content for block in last.content if isinstance(block, ToolResult)])


def agent_file(
    root: Path, name: str, head: str = "", body: str = "You help.", folder: str = "home/.claude/agents"
) -> None:
    path = root / folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Helps with {name}.\n{head}\n---\n{body}\n")


def repository(work: Path) -> None:
    """A git repository with one commit."""
    work.mkdir(exist_ok=True)
    (work / "kept.txt").write_text("as it was\n")
    (work / "secrets").mkdir()
    (work / "secrets" / "key.txt").write_text("hush\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(["git", *who, *arguments], cwd=work, check=True, capture_output=True)


# --- the order, and whose events are whose ---


async def test_the_events_of_a_subagent_stand_inside_of_its_call_under_its_label(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(
            task(), use(call("bash", "b", command="touch x.txt")), say("It is empty."), say("All done.")
        )
        events = await home.run(live, "go", [YES])
    asks = ["permission_request", "permission_resolved", "tool_start", "notice", "tool_end", "turn_end"]
    inner = ["user_message", *CALLED, *asks, *CALLED, "turn_end"]
    assert kinds(of(events, LABEL)) == inner
    outer = ["status", "user_message", *CALLED, "tool_start", "tool_end", "turn_end", *CALLED, "turn_end"]
    assert kinds(of(events, None)) == [*outer, "done", "status"]
    durable = [event for event in events if event.durable]
    start = next(number for number, event in enumerate(durable) if event.type == "tool_start")
    assert [event.agent for event in durable[start + 1 : start + 1 + len(inner)]] == [LABEL] * len(inner)
    first = of(events, LABEL)[0]
    assert isinstance(first, UserMessage)
    assert (first.for_call, first.typed_text) == ("t1", "Look around.")
    assert ends(events)["t1"].output == "It is empty."


async def test_only_the_last_words_come_back_and_the_messages_of_the_session_are_the_main_agents(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(), use(call("ls", path="."), text="First I look."), say("Nothing."), say("I see."))
        await home.run(live, "go")
        messages, _ = await home.app.display(live.id)
        assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"]
        assert texts(home, -1) == "\nNothing."
        assert not any("First I look" in str(message) for message in home.provider.requests[-1].messages)


async def test_a_subagent_begins_with_its_task_alone_and_has_no_subagents_of_its_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task("Find it."), say("Found."), say("Good."))
        await home.run(live, "a secret of the conversation")
        main, inner = home.provider.requests[:2]
    assert [message.text for message in inner.messages] == ["Find it."]
    assert "secret" not in inner.system
    names = {tool.name for tool in inner.tools}
    assert {"read", "bash", "write"} < names
    assert not names & {"task", "task_output", "task_stop", "exit_plan_mode"}
    assert "task" in {tool.name for tool in main.tools}
    assert [tool.name for tool in inner.tools] == sorted(names)


async def test_the_calls_of_several_subagents_never_share_an_id_whatever_their_models_say(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        for number in (1, 2):
            home.provider.script(task(call_id="call-1"), use(call("ls", "call-1", path=".")), say(f"{number}"))
        home.provider.script(say("Done."))
        events = await home.run(live, "go")
        again = await home.run(live, "once more")
        home.provider.script(task(call_id="call-1"), say("3"), say("Done."))
        await home.hub.close(live, "test")
        live = await home.reload(live.id)
        later = await home.run(live, "again")
    assert list(ends([*events, *again, *later])) == [
        "general-purpose-1_call-1",
        "call-1",
        "general-purpose-2_call-1",
        "call-1-2",
        "call-1-3",
    ]
    assert [event.agent for event in later if isinstance(event, UserMessage)] == [None, "general-purpose-3"]


async def test_the_agents_are_listed_in_the_tool_and_an_unknown_one_is_told_the_names(tmp_path: Path) -> None:
    agent_file(tmp_path, "reviewer")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(kind="review"), say("Oh."))
        events = await home.run(live, "go")
        [told] = [tool.description for tool in home.provider.requests[0].tools if tool.name == "task"]
        agent_file(tmp_path, "later")
        home.provider.script(say("Still."))
        await home.run(live, "and now?")
        assert home.provider.requests[-1].tools == home.provider.requests[0].tools  # the prefix is stable
    assert "- reviewer: Helps with reviewer." in told
    assert ends(events)["t1"].output.startswith("There is no agent 'review'. Use one of: reviewer")


# --- what it shares ---


async def test_what_a_subagent_spends_is_the_sessions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.price_usd = 0.5
        live = await home.session(mode="yolo")
        home.provider.script(task(), use(call("ls", path=".")), say("Nothing."), say("I see."))
        events = await home.run(live, "go")
        ledger = live.agent.history.ledger
        used, total = ledger.used, ledger.total
        reports = [event for event in events if isinstance(event, UsageReport)]
        assert [report.cost_usd for report in reports] == [0.5, 1.0, 1.5, 2.0]
        done = next(event for event in events if isinstance(event, Done))
        assert (done.cost_usd, done.usage, done.turns) == (2.0, total, 2)
        assert used.tool_calls == 2
        await home.hub.close(live, "test")
        again = (await home.reload(live.id)).agent.history.ledger
        assert (again.used, again.total, again.total_cost_usd) == (used, total, 2.0)


async def test_a_budget_that_is_used_up_is_asked_about_by_whoever_needs_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.price_usd = 1.0
        live = await home.session(budget={"usd": 2})
        home.provider.script(task(), use(call("ls", path=".")), say("Nothing."), say("I see."))
        events = await home.run(live, "go", [YES])
    [asked] = [event for event in events if isinstance(event, PermissionRequest)]
    assert (asked.kind, asked.agent, asked.turn) == ("budget", LABEL, 1)
    assert [event.stop_reason for event in events if isinstance(event, Done)] == ["end_turn"]


async def test_one_undo_takes_back_what_the_main_agent_and_its_subagent_did(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "old.txt").write_text("old")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("write", "w1", file_path="mine.txt", content="1")),
            task(),
            use(call("read", "r", file_path="old.txt")),
            use(call("edit", "e", file_path="old.txt", old_string="old", new_string="new")),
            say("Changed."),
            say("Done."),
        )
        await home.run(live, "go")
        assert (tmp_path / "work" / "old.txt").read_text() == "new"
        undone = await live.agent.undo()
    assert (undone.restored, undone.deleted) == (("old.txt",), ("mine.txt",))
    assert (tmp_path / "work" / "old.txt").read_text() == "old"


async def test_what_was_allowed_for_the_session_holds_for_the_next_subagent(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        runs = use(call("bash", "b", command="make test"))
        home.provider.script(task(), runs, say("1"), task(call_id="t2"), runs, say("2"), runs, say("Done."))
        events = await home.run(live, "go", [AnswerBody(allow=True, scope="session")])
    assert len([event for event in events if isinstance(event, PermissionRequest)]) == 1
    assert [event.is_error for event in ends(events).values()] == [False] * 5


async def test_a_file_that_the_main_agent_read_has_to_be_read_by_the_subagent_itself(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        writes = use(call("write", "w", file_path="a.txt", content="b"))
        home.provider.script(use(call("read", "r", file_path="a.txt")), task(), writes, say("No."), say("Done."))
        events = await home.run(live, "go")
    assert ends(events)[f"{LABEL}_w"].is_error


async def test_hooks_hear_of_a_subagent_and_of_its_calls_who_it_is(tmp_path: Path) -> None:
    log = script(tmp_path, "log.py", LOGGER)
    settings(
        tmp_path,
        **{
            event: [{"command": log}]
            for event in ("SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse", "Stop")
        },
        UserPromptSubmit=[{"command": log}],
        SessionStart=[{"command": log}],
    )
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(), use(call("ls", "l", path=".")), say("Nothing."), say("I see."))
        await home.run(live, "go")
    heard = [(one["hook_event_name"], one.get("tool_name"), one.get("agent_id")) for one in logged(tmp_path)]
    assert heard == [
        ("SessionStart", None, None),
        ("UserPromptSubmit", None, None),
        ("PreToolUse", "Agent", None),
        ("SubagentStart", None, LABEL),
        ("PreToolUse", "LS", LABEL),
        ("PostToolUse", "LS", LABEL),
        ("SubagentStop", None, LABEL),
        ("PostToolUse", "Agent", None),
        ("Stop", None, None),
    ]
    stop = logged(tmp_path)[6]
    assert (stop["agent_type"], stop["last_assistant_message"], stop["stop_hook_active"]) == (
        "general-purpose",
        "Nothing.",
        False,
    )
    assert LABEL in Path(stop["agent_transcript_path"]).read_text()


async def test_a_start_hook_adds_to_the_task_and_a_stop_hook_sends_it_on_five_times(tmp_path: Path) -> None:
    starts = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "The branch is main."}}
    settings(
        tmp_path,
        SubagentStart=[{"command": script(tmp_path, "start.py", f"print({json.dumps(starts)!r})")}],
        SubagentStop=[{"matcher": "general-purpose", "command": script(tmp_path, "stop.py", BLOCKS)}],
    )
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(), *[say(f"answer {number}") for number in range(6)], say("Done."))
        events = await home.run(live, "go")
        first = home.provider.requests[1].messages[0].content
    assert next(block.text for block in first if isinstance(block, Text)) == "Look around."
    assert "The branch is main." in str(first)
    assert ends(events)["t1"].output == "answer 5"
    assert [event.code for event in of(events, LABEL) if isinstance(event, Notice)] == ["stop_hook_overruled"]


BLOCKS = 'print(\'{"decision": "block", "reason": "Look again."}\')'


async def test_a_hook_that_ends_everything_in_a_subagent_ends_the_run(tmp_path: Path) -> None:
    settings(tmp_path, SubagentStop=[{"command": script(tmp_path, "end.py", "print('{\"continue\": false}')")}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(), say("Nothing."))
        events = await home.run(live, "go")
    assert [event.stop_reason for event in events if isinstance(event, Done)] == ["hook_stopped"]
    assert "stopped by a hook" in ends(events)["t1"].output


# --- how it ends ---


async def test_one_that_goes_in_circles_is_stopped(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        same, other = use(call("ls", path=".")), use(call("glob", pattern="*"))
        home.provider.script(task(), same, other, same, same, other, same, say("I am out."))
        events = await home.run(live, "go")
    end = ends(events)["t1"]
    assert end.is_error
    assert "the same calls with the same results 4 times within 8 turns" in end.output
    assert [event.text for event in events if isinstance(event, Done)] == ["I am out."]


async def test_the_same_calls_further_apart_are_no_circle(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        same = use(call("ls", path="."))
        others = [use(call("glob", pattern=f"*{number}")) for number in range(4)]
        turns = [turn for other in others for turn in (same, other, use(call("glob", pattern=str(other.content))))]
        home.provider.script(task(), *turns, say("Found."), say("Done."))
        events = await home.run(live, "go")
    assert ends(events)["t1"].output == "Found."


async def test_one_that_makes_as_many_calls_as_its_file_allows_is_stopped(tmp_path: Path) -> None:
    agent_file(tmp_path, "short", "maxTurns: 2")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        looks = [use(call("glob", pattern=f"*{number}"), text=f"look {number}") for number in range(2)]
        home.provider.script(task(kind="short"), *looks, say("Done."))
        events = await home.run(live, "go")
    assert ends(events)["t1"].output == (
        "What it said last:\nlook 1\n\n[It was stopped: it made as many model calls as it may.]"
    )
    assert ends(events)["short-1_call-glob-2"].cancelled


async def test_a_cancel_ends_it_with_its_run_and_keeps_what_it_said(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        asks = use(call("bash", "b", command="make"), text="I begin.")
        home.provider.script(task(), asks)
        live.prompt("go")
        request = await home.until_asked(live)
        live.cancel()
        await home.until_idle(live)
        events = home.events(live)
    assert request.agent == LABEL
    resolved = next(event for event in events if isinstance(event, PermissionResolved))
    assert (resolved.resolution, resolved.agent) == ("cancelled", LABEL)
    assert {name: (end.is_error, end.cancelled) for name, end in ends(events).items()} == {
        f"{LABEL}_b": (True, True),
        "t1": (True, False),
    }
    assert ends(events)["t1"].output == "I begin.\n[interrupted by user]"
    said = [event for event in of(events, LABEL) if isinstance(event, AssistantMessage)]
    assert [event.message.text for event in said] == ["I begin."]
    assert kinds(of(events, LABEL))[-1] == "turn_end"


async def test_a_suspend_does_not_wait_for_what_a_subagent_asks(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(), use(call("bash", "b", command="make"), text="I begin."), say("Done."))
        live.prompt("go")
        await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        events = home.events(live)
        assert [event.stop_reason for event in events if isinstance(event, Done)] == ["suspended"]
        assert [event.resolution for event in events if isinstance(event, PermissionResolved)] == ["expired"]
        assert "It was stopped, because the session is being suspended" in ends(events)["t1"].output
        live.resume_run()
        await home.until_idle(live)
        assert home.events(live)[-2].type == "done"


async def test_nobody_waits_for_an_answer_that_is_put_off(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended="defer")
        home.provider.script(task(), use(call("bash", "b", command="make")), say("Refused."), say("Done."))
        events = await home.run(live, "go")
    resolved = next(event for event in events if isinstance(event, PermissionResolved))
    assert (resolved.resolution, resolved.answered_by) == ("denied", "unattended")
    assert "leave this call to the main agent" in ends(events)[f"{LABEL}_b"].output
    assert ends(events)["t1"].output == "Refused."


async def test_a_message_to_the_run_leaves_the_question_of_a_subagent_open(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(), use(call("bash", "b", command="true")), say("Ran."), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        live.prompt("and be quick", when_busy="steer")
        assert live.requests.open == (request,)
        live.answer(request.request_id, YES)
        await home.until_idle(live)
        assert "and be quick" in texts(home, -1)


async def test_a_stop_of_the_server_at_its_border_leaves_it_to_the_next_load(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        waits = Turn([], use(call("ls", path=".")).content, "tool_use", holds=hold)
        home.provider.script(task(), waits)
        live.prompt("go")
        with anyio.fail_after(5):
            await home.provider.streaming.wait()
        live.pause()
        hold.set()
        await home.until_idle(live)
        assert [(event.type, event.agent) for event in home.events(live)][-2:] == [
            ("tool_end", LABEL),
            ("turn_end", LABEL),
        ]
        assert "t1" not in ends(home.events(live))
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("I go on."))
        live.resume_run()
        await home.until_idle(live)
        events = home.events(live)
    assert "outcome unknown" in ends(events)["t1"].output
    assert [event.text for event in events if isinstance(event, Done)] == ["I go on."]


# --- kinds ---


async def test_a_kind_of_a_file_has_its_own_words_tools_and_mode(tmp_path: Path) -> None:
    agent_file(tmp_path, "reader", "tools: Read, Write\npermissionMode: plan", body="You only read.")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        writes = use(call("write", "w", file_path="a.txt", content="a"))
        home.provider.script(task(kind="Reader"), writes, say("No."), say("Done."))
        events = await home.run(live, "go")
        inner = home.provider.requests[1]
    assert inner.system.startswith("You only read.\n")
    assert [tool.name for tool in inner.tools] == ["read", "write"]
    assert "plan mode changes nothing" in ends(events)["reader-1_w"].output


async def test_a_deny_rule_takes_a_kind_away(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text('[permissions]\ndeny = ["Agent(Explore)", "Bash"]\n')
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(kind="explore"), task(call_id="t2"), say("Yes."), say("Done."))
        events = await home.run(live, "go")
        assert "bash" not in {tool.name for tool in home.provider.requests[2].tools}
    assert ends(events)["t1"].is_error
    assert ends(events)["t2"].output == "Yes."


async def test_a_broken_file_is_a_notice_that_names_it(tmp_path: Path) -> None:
    agent_file(tmp_path, "bad", "tools: [", folder="work/.claude/agents")
    async with house(tmp_path) as home:
        live = await home.session()
        events = await home.run(live, "go")
    assert [event.text for event in events if isinstance(event, Notice) and event.code == "instructions_ignored"] == [
        ".claude/agents/bad.md:4: its frontmatter is no YAML: the agent is left out. Mend it."
    ]


@pytest.mark.parametrize(
    ("model", "is_taken"), [("scripted/other", True), ("other/m", False), ("nonsense", False), ("anthropic/x", False)]
)
async def test_another_model_may_be_chosen_but_no_other_vendor(tmp_path: Path, model: str, is_taken: bool) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(model=model), say("Yes."), say("Done."))
        events = await home.run(live, "go")
        asked = [request.model for request in home.provider.requests]
    assert ends(events)["t1"].is_error is not is_taken
    assert ("other" in asked) is is_taken


# --- apart, and in the background ---


async def test_work_in_a_worktree_is_kept_where_something_changed_and_the_project_is_untouched(tmp_path: Path) -> None:
    work = tmp_path / "work"
    repository(work)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        writes = use(call("write", "w", file_path="new.txt", content="new"), call("ls", "l", path="."))
        home.provider.script(
            task(isolation="worktree"),
            writes,
            say("Written."),
            task(call_id="t2", isolation="worktree"),
            say("No."),
            say("Done."),
        )
        events = await home.run(live, "go")
    name = f".claude/worktrees/{live.id}-{LABEL}"
    assert (
        f"[Its work is in the git worktree {name} (1 changed files that are not committed)" in ends(events)["t1"].output
    )
    assert ends(events)["t2"].output == "No."
    assert (work / name / "new.txt").read_text() == "new"
    assert not (work / "new.txt").exists()
    assert [path.name for path in (work / ".claude/worktrees").iterdir() if path.is_dir()] == [f"{live.id}-{LABEL}"]
    status = subprocess.run(["git", "status", "--porcelain"], cwd=work, capture_output=True, text=True, check=True)
    assert status.stdout == ""


async def test_an_unchanged_worktree_leaves_no_trace(tmp_path: Path) -> None:
    work = tmp_path / "work"
    repository(work)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(task(isolation="worktree"), say("Nothing."), say("Done."))
        events = await home.run(live, "go")
    assert ends(events)["t1"].output == "Nothing."
    assert not (work / ".claude").exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=work, capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1


@pytest.mark.parametrize("rule", ["Read(/secrets/**)", "Read(secrets/**)", "Read(/{work}/secrets/**)"])
async def test_what_is_forbidden_in_the_project_is_forbidden_in_its_worktrees(tmp_path: Path, rule: str) -> None:
    work = tmp_path / "work"
    repository(work)
    (work / ".claude").mkdir()
    denied = {"permissions": {"deny": [rule.format(work=work.resolve())]}}
    (work / ".claude" / "settings.json").write_text(json.dumps(denied))
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        reads = use(
            call("read", "r", file_path="secrets/key.txt"),
            call("bash", "b", command="cat secrets/key.txt"),
            call("grep", "g", pattern="hush", output_mode="content"),
            call("read", "o", file_path=str(work / "kept.txt")),
        )
        home.provider.script(task(isolation="worktree"), reads, say("No."), say("Done."))
        events = await home.run(live, "go")
    shown = {name.rpartition("_")[2]: end for name, end in ends(events).items()}
    assert not any("hush" in end.output for end in shown.values())
    assert shown["o"].is_error  # the project itself is out of its reach


async def test_a_worktree_needs_a_repository_and_no_plan_mode(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="plan")
        home.provider.script(task(isolation="worktree"), say("Oh."))
        planned = await home.run(live, "go")
        other = await home.session(mode="yolo")
        home.provider.script(task(isolation="worktree"), say("Oh."))
        nowhere = await home.run(other, "go")
    assert "Plan mode changes nothing" in ends(planned)["t1"].output
    assert "in no git repository" in ends(nowhere)["t1"].output


def told_of(live: LiveSession) -> list[str]:
    return [task.state for task in live.agent.tasks]


async def test_one_in_the_background_survives_a_cancel_and_ends_with_its_task(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(run_in_background=True))
        hold = anyio.Event()
        home.provider.script(Turn([], [Text(text="x")], holds=hold), Turn([], [Text(text="y")], holds=hold))
        live.prompt("go")
        with anyio.fail_after(5):
            while home.provider.open_streams < 2:
                await anyio.lowlevel.checkpoint()
        live.cancel()
        await home.until_idle(live)
        assert told_of(live) == ["running"]
        await live.stop_task("bg-1")
        assert told_of(live) == ["stopped"]
    assert kinds(of(home.events(live), LABEL))[-1] == "turn_end"


async def test_a_closed_session_is_freed_with_what_its_subagents_had(tmp_path: Path) -> None:
    gc.disable()
    try:
        async with house(tmp_path) as home:
            live = await home.hub.create(tmp_path / "work", Settings(mode="yolo"))
            home.provider.script(task(), use(call("ls", path=".")), say("Nothing."), say("Done."))
            await live.outcome_of(live.prompt("go").prompt_id).wait()
            home.provider.requests.clear()
            left = [weakref.ref(part) for part in (live, live.agent, live.agent.log)]
            await home.hub.close(live, "deleted")
            del live
            with anyio.fail_after(5):
                while any(part() is not None for part in left):
                    await anyio.lowlevel.checkpoint()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("rule", "there"),
    [
        ("Read(/secrets/**)", "/secrets/** from /w/tree"),
        ("Read(//repo/secrets/**)", "//w/tree/secrets/** from /repo"),
        ("Read(~/repo/secrets/**)", None),
        ("Read(secrets/**)", None),
        ("Read(//elsewhere/**)", None),
        ("Bash(rm *)", None),
        ("Read", None),
    ],
)
def test_a_rule_about_a_place_of_the_project_is_one_about_the_same_place_of_a_worktree(
    rule: str, there: str | None
) -> None:
    given = Rulebook(deny=(parse_rule(rule, Origin("f", Path("/repo"))),))
    found = moved(given, Path("/repo"), Path("/w/tree"), Path("/home/me")).deny
    assert [f"{one.spec} from {one.origin.base}" for one in found] == ([] if there is None else [there])


def test_a_rule_from_above_the_project_or_from_home_is_moved_as_well() -> None:
    rules = (
        parse_rule("Read(/repo/secrets/**)", Origin("f", Path("/"))),
        parse_rule("Read(~/repo/x)", Origin("f", Path("/"))),
    )
    found = moved(Rulebook(ask=rules), Path("/repo"), Path("/w/tree"), Path("/"))
    assert [one.spec for one in found.ask] == ["//w/tree/secrets/**", "//w/tree/x"]


async def test_worktrees_of_a_killed_process_are_removed_or_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    repository(work)
    hold = anyio.Event()
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        apart = [call("task", f"t{n}", description="d", prompt="p", subagent_type="general-purpose") for n in (1, 2)]
        for one in apart:
            assert one.input is not None
            one.input["isolation"] = "worktree"
        waits = Turn([], [Text(text="x")], holds=hold)
        home.provider.script(use(*apart), use(call("write", "w", file_path="new.txt", content="new")), waits, waits)
        live.prompt("go")
        with anyio.fail_after(10):
            while not any(isinstance(event, ToolEnd) for event in home.events(live)) or home.provider.open_streams < 2:
                await anyio.lowlevel.checkpoint()
        folders = sorted(path for path in (work / ".claude/worktrees").iterdir() if path.is_dir())
        [changed] = [path for path in folders if (path / "new.txt").exists()]
        assert len(folders) == 2
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert [path.name for path in (work / ".claude/worktrees").iterdir() if path.is_dir()] == [changed.name]
        home.provider.script(say("I see."), say("I see."))
        await home.run(live, "what now?")
        assert f".claude/worktrees/{changed.name}" in texts(home, -1)
        await home.hub.close(live, "test")
        live = await home.reload(live.id)
        assert live.agent.history.notes == []  # it is told once


async def test_the_context_of_a_subagent_is_compacted_by_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        full = use(call("glob", pattern="*"))
        full.usage = Usage(input=180_000, output=5)
        home.provider.script(
            task(), use(call("ls", path=".")), full, say("<summary>Seen.</summary>"), say("Found."), say("Done.")
        )
        events = await home.run(live, "go")
        messages = live.agent.history.transcript.messages
        assert not live.agent.history.transcript.was_compacted
        await home.hub.close(live, "test")
        assert (await home.reload(live.id)).agent.history.transcript.messages == messages
    inner = [event.type for event in of(events, LABEL) if event.type in ("compaction_start", "compacted")]
    assert inner == ["compaction_start", "compacted"]
    assert ends(events)["t1"].output == "Found."


def test_what_a_subagent_works_counts_once() -> None:
    session = Ledger()
    first, second = SubagentLedger(session=session), SubagentLedger(session=session)
    for one in (first, second):
        one.asked_model(100)
        one.began_call(0)
        one.began_call(0)
        one.ended_call(30)
        one.ended_call(50)  # side by side: the longer one counts
    call_of_main = ToolEnd(call_id="t", tool_name="task", output="", duration_ms=5_000)
    session.began_call(0)
    session.ended_call(call_of_main.worked_ms)
    assert (session.busy_ms, session.tool_calls) == (300, 5)
    assert ToolEnd(call_id="b", tool_name="bash", output="", duration_ms=7).worked_ms == 7


@pytest.mark.parametrize(
    ("path", "is_so"),
    [
        (".claude/settings.json", True),
        (".claude/worktrees/a/src/x.py", False),
        (".claude/worktrees/a/.git", True),
        (".claude/worktrees/a/.claude/settings.json", True),
        ("src/.claude/worktrees/a/x.py", True),
    ],
)
def test_what_lies_in_a_worktree_is_protected_as_it_is_in_the_project(path: str, is_so: bool) -> None:
    assert is_protected(PurePath(path)) is is_so


async def test_in_a_session_of_mode_deny_no_subagent_asks_whatever_its_own_mode_is(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="deny")
        asks = use(call("web_fetch", "f", url="https://example.com/"))
        home.provider.script(task(kind="explore"), asks, say("No."), say("Done."))
        agent_file(tmp_path, "web", "permissionMode: plan")
        home.provider.script(task(kind="web", call_id="t2"), asks, say("No."), say("Done."))
        events = [*await home.run(live, "go"), *await home.run(await home.session(mode="deny"), "go")]
    assert not any(isinstance(event, PermissionRequest) for event in events)
    assert "mode deny never asks" in ends(events)["web-1_f"].output


async def test_a_model_of_a_file_that_there_is_not_is_told_once_and_the_sessions_is_used(tmp_path: Path) -> None:
    agent_file(tmp_path, "helper", "model: sonnet")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task(kind="helper"), say("1"), task(kind="helper", call_id="t2"), say("2"), say("Done."))
        events = await home.run(live, "go")
    assert [event.code for event in events if isinstance(event, Notice)] == ["settings_ignored"]
    assert [end.output for end in ends(events).values()] == ["1", "2"]
