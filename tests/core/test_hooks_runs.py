"""The user's hooks in real runs: scripts as people have them for other agents, named in settings, as real processes."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
import tomlkit

from agentcore.events import (
    AssistantMessage,
    Compacted,
    Done,
    Error,
    ModelStart,
    Notice,
    NumberedEvent,
    PermissionRequest,
    SessionUpdated,
    ToolEnd,
    ToolStart,
    UserMessage,
)
from agentcore.messages import Text, ToolCall
from agentcore.ports.models import TextPart
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.fakes import House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio
Kind = TypeVar("Kind", bound=NumberedEvent)

FORMATTER = """
# after an edit: tidy the file that was changed
import json, sys, pathlib
data = json.load(sys.stdin)
file = pathlib.Path(data["tool_input"]["file_path"])
if data["tool_name"] in ("Write", "Edit") and file.suffix == ".txt":
    file.write_text(file.read_text().upper())
"""
BLOCKER = """#!/bin/bash
# no rm -rf
input=$(cat)
command=$(printf '%s' "$input" | {python} -c 'import json,sys; print(json.load(sys.stdin)["tool_input"]["command"])')
if printf '%s' "$command" | grep -qE 'rm[[:space:]]+-rf'; then
  echo "rm -rf is not allowed here: use trash" >&2
  exit 2
fi
exit 0
"""
LOGGER = """
import json, os, sys
data = json.load(sys.stdin)
with open(os.path.join(os.environ["CLAUDE_PROJECT_DIR"], "hooks.log"), "a") as log:
    log.write(json.dumps(data) + "\\n")
"""
CONTEXT = """
import json, sys
prompt = json.load(sys.stdin)["prompt"]
print("The branch is main.") if "branch" in prompt else None
"""
INSISTS_ON_TESTS = """
import json, pathlib, sys
data = json.load(sys.stdin)
if data["stop_hook_active"]:
    sys.exit(0)
if not pathlib.Path(data["cwd"], "tested").exists():
    print(json.dumps({"decision": "block", "reason": "Run the tests first."}))
"""


def script(root: Path, name: str, text: str) -> str:
    """Write a script and return the command line that runs it."""
    path = root / name
    path.write_text(text.replace("{python}", sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path) if text.startswith("#!") else f"{sys.executable} {path}"


def says(root: Path, name: str, output: dict[str, Any], exit_code: int = 0) -> str:
    """A script that says the same every time."""
    return script(root, name, f"import sys\nprint({json.dumps(output)!r})\nsys.exit({exit_code})\n")


def settings(root: Path, **events: list[dict[str, Any]]) -> None:
    """Write the user's settings: each event's groups, `{matcher?, command, …}`."""
    hooks = {
        event: [
            {
                **({"matcher": group["matcher"]} if "matcher" in group else {}),
                "hooks": [{"type": "command", **{key: value for key, value in group.items() if key != "matcher"}}],
            }
            for group in groups
        ]
        for event, groups in events.items()
    }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "settings.toml").write_text(tomlkit.dumps({"hooks": hooks}))


def own(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def logged(root: Path) -> list[dict[str, Any]]:
    path = root / "work" / "hooks.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def of_kind(events: list[NumberedEvent], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def notices(events: list[NumberedEvent], code: str) -> list[str]:
    return [event.text for event in of_kind(events, Notice) if event.code == code]


def told(home: House, request: int = -1) -> list[str]:
    """The texts of the last message that the model got."""
    return [block.text for block in home.provider.requests[request].messages[-1].content if isinstance(block, Text)]


async def same_after_reload(home: House, live: LiveSession) -> None:
    before = live.agent.history.transcript.messages
    await home.hub.close(live, "test")
    again = await home.reload(live.id)
    assert again.agent.history.transcript.messages == before


# --- scripts as people have them ----------------------------------------------------------------------------------


async def test_a_formatter_runs_after_an_edit_on_the_absolute_path(tmp_path: Path) -> None:
    settings(tmp_path, PostToolUse=[{"matcher": "Edit|Write", "command": script(tmp_path, "format.py", FORMATTER)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="accept-edits")
        home.provider.script(use(call("write", file_path="a.txt", content="loud")), say("Written."))
        events = await home.run(live, "write")
    assert (tmp_path / "work" / "a.txt").read_text() == "LOUD"
    assert notices(events, "hook_failed") == []


async def test_a_blocker_of_rm_tells_the_model_why_and_nothing_runs(tmp_path: Path) -> None:
    settings(tmp_path, PreToolUse=[{"matcher": "Bash", "command": script(tmp_path, "block.sh", BLOCKER)}])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "build").mkdir()
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("bash", "c1", command="rm -rf build"), call("bash", "c2", command="echo fine")), say("I see.")
        )
        events = await home.run(live, "clean up")
        first, second = of_kind(events, ToolEnd)
        assert (first.is_error, first.cancelled) == (True, True)
        assert "rm -rf is not allowed here: use trash" in first.output
        assert second.output == "fine\n[exit code 0]"
        assert [start.call_id for start in of_kind(events, ToolStart)] == ["c2"]
        await same_after_reload(home, live)
    assert (tmp_path / "work" / "build").is_dir()


async def test_a_logger_reads_the_documented_fields_of_every_moment(tmp_path: Path) -> None:
    command = script(tmp_path, "log.py", LOGGER)
    names = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch")
    settings(tmp_path, **{name: [{"command": command}] for name in (*names, "Stop", "RunEnd")})
    async with house(tmp_path) as home:
        live = await home.session(mode="accept-edits", effort="high")
        calls = (call("write", "c1", file_path="a.txt", content="x"), call("read", "c2", file_path="missing"))
        home.provider.script(use(*calls), say("Done."))
        events = await home.run(live, "go")
    read = logged(tmp_path)
    assert [one["hook_event_name"] for one in read] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Stop",
        "RunEnd",
    ]
    cwd = str((tmp_path / "work").resolve())
    common = {
        "session_id": live.id,
        "cwd": cwd,
        "permission_mode": "acceptEdits",
        "effort": {"level": "high"},
        "prompt_id": of_kind(events, Done)[0].prompt_id,
    }
    for one in read:
        assert {key: one[key] for key in common} == common
        assert Path(one["transcript_path"]).name == "journal.jsonl"
    by_event = {one["hook_event_name"]: one for one in read}
    start = by_event["SessionStart"]
    assert (start["source"], start["model"]) == ("startup", "scripted/fake")
    assert by_event["UserPromptSubmit"]["prompt"] == "go"
    after = by_event["PostToolUse"]
    assert (after["tool_name"], after["native_tool_name"], after["tool_use_id"]) == ("Write", "write", "c1")
    assert after["tool_input"] == {"file_path": f"{cwd}/a.txt", "content": "x"}
    assert after["tool_response"]["filePath"] == f"{cwd}/a.txt"
    assert isinstance(after["duration_ms"], int)
    failure = by_event["PostToolUseFailure"]
    assert (failure["is_interrupt"], "missing" in failure["error"]) == (False, True)
    assert [one["tool_use_id"] for one in by_event["PostToolBatch"]["tool_calls"]] == ["c1", "c2"]
    assert (by_event["Stop"]["stop_hook_active"], by_event["Stop"]["last_assistant_message"]) == (False, "Done.")
    assert (by_event["RunEnd"]["stop_reason"], by_event["RunEnd"]["turns"]) == ("end_turn", 2)


async def test_plain_text_of_a_prompt_hook_reaches_the_model_and_not_the_display(tmp_path: Path) -> None:
    settings(tmp_path, UserPromptSubmit=[{"command": script(tmp_path, "context.py", CONTEXT)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("main"), say("Hello."))
        [message] = of_kind(await home.run(live, "which branch?"), UserMessage)
        assert told(home) == [
            '<hook-context event="UserPromptSubmit">\nThe branch is main.\n</hook-context>',
            "which branch?",
        ]
        assert message.display_text == "which branch?"
        await home.run(live, "hi")
        assert told(home) == ["hi"]
        await same_after_reload(home, live)


async def test_a_stop_hook_insists_on_tests(tmp_path: Path) -> None:
    settings(tmp_path, Stop=[{"command": script(tmp_path, "tests.py", INSISTS_ON_TESTS)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("All done."), say("The tests are green."))
        events = await home.run(live, "fix it")
        assert told(home) == ['<hook-feedback event="Stop">\nRun the tests first.\n</hook-feedback>']
        [_, sent] = of_kind(events, UserMessage)
        assert sent.source == "hook"
        [done] = of_kind(events, Done)
        assert (done.stop_reason, done.turns, done.text) == ("end_turn", 2, "The tests are green.")
        await same_after_reload(home, live)


# --- the beginning of a run ---------------------------------------------------------------------------------------


async def test_a_blocked_prompt_never_reaches_the_model(tmp_path: Path) -> None:
    block = {"decision": "block", "reason": "It holds a password."}
    settings(
        tmp_path,
        SessionStart=[{"command": "echo ran >> starts; echo Welcome."}],
        UserPromptSubmit=[
            {
                "command": script(
                    tmp_path,
                    "block.py",
                    f"""
import json, sys
if "secret" in json.load(sys.stdin)["prompt"]:
    print({json.dumps(block)!r})
""",
                )
            }
        ],
    )
    async with house(tmp_path) as home:
        live = await home.session()
        events = await home.run(live, "my secret")
        assert (of_kind(events, Done)[0].stop_reason, of_kind(events, UserMessage)) == ("blocked", [])
        assert notices(events, "prompt_blocked") == ["A hook blocked the prompt: It holds a password."]
        home.provider.script(say("Hello."))
        await home.run(live, "hello")
        start = '<hook-context event="SessionStart">\nWelcome.\n</hook-context>'
        assert told(home) == [start, "hello"]  # what was said at the beginning waited for a prompt
        assert (tmp_path / "work" / "starts").read_text() == "ran\n"
        await same_after_reload(home, live)


async def test_session_start_hooks_run_once_for_each_fresh_context(tmp_path: Path) -> None:
    settings(tmp_path, SessionStart=[{"command": script(tmp_path, "log.py", LOGGER)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(*[say("x") for _ in range(4)])
        await home.run(live, "one")
        await home.run(live, "two")
        live.clear()
        await home.run(live, "three")
        await home.hub.close(live, "test")
        live = await home.reload(live.id)
        await home.run(live, "four")
    assert [one["source"] for one in logged(tmp_path)] == ["startup", "clear", "resume"]


async def test_a_hook_names_the_session(tmp_path: Path) -> None:
    named = own("SessionStart", sessionTitle="Cleaning")
    settings(tmp_path, SessionStart=[{"command": says(tmp_path, "title.py", named)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("x"))
        events = await home.run(live, "one")
        [changed] = of_kind(events, SessionUpdated)
        assert (changed.title, changed.by, live.agent.settings.title) == ("Cleaning", "hook", "Cleaning")


@pytest.mark.parametrize(
    "event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop"]
)
async def test_continue_false_ends_the_run_wherever_it_is_said(tmp_path: Path, event: str) -> None:
    halt = {"continue": False, "stopReason": "Enough."}
    settings(tmp_path, **{event: [{"command": says(tmp_path, "halt.py", halt)}]})
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("bash", "c1", command="echo 1"), call("bash", "c2", command="echo 2")), say("never"), say("never")
        )
        events = await home.run(live, "go")
        [done] = of_kind(events, Done)
        assert done.stop_reason == "hook_stopped"
        [notice] = notices(events, "hook_stopped")
        assert notice.endswith("stopped the run: Enough.")
        assert len(home.provider.requests) == {"SessionStart": 0, "UserPromptSubmit": 0, "Stop": 2}.get(event, 1)
        ran = [end.call_id for end in of_kind(events, ToolEnd) if not end.cancelled]
        expected = {"PostToolUse": ["c1"], "PostToolBatch": ["c1", "c2"], "Stop": ["c1", "c2"]}
        assert ran == expected.get(event, [])
        assert live.agent.history.transcript.open_calls == ()
        await same_after_reload(home, live)


# --- calls --------------------------------------------------------------------------------------------------------


async def test_a_rewritten_input_is_what_is_asked_about_and_what_runs(tmp_path: Path) -> None:
    rewritten = own("PreToolUse", updatedInput={"command": "echo safe"}, permissionDecision="ask")
    settings(tmp_path, PreToolUse=[{"matcher": "Bash", "command": says(tmp_path, "rewrite.py", rewritten)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo dangerous")), say("ok"))
        events = await home.run(live, "go", answers=[AnswerBody(allow=True)])
        [asked] = of_kind(events, PermissionRequest)
        assert asked.input == {"command": "echo safe"}
        assert of_kind(events, ToolStart)[0].input == {"command": "echo safe"}
        assert of_kind(events, ToolEnd)[0].output == "safe\n[exit code 0]"
        [shown] = live.agent.history.transcript.messages[1].tool_calls
        assert shown.input == {"command": "echo dangerous"}  # what the model asked for stays in its words
        await same_after_reload(home, live)


async def test_what_a_hook_wants_asked_is_on_disk_before_a_person_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = own("PreToolUse", permissionDecision="ask")
    settings(tmp_path, PreToolUse=[{"command": says(tmp_path, "ask.py", ask)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        log, synced = live.agent.log, list[int]()
        sync = log.sync

        async def noting() -> None:
            await sync()
            synced.append(log.last_seq)

        monkeypatch.setattr(log, "sync", noting)
        home.provider.script(use(call("bash", command="echo 1")), say("ok"))
        live.prompt("go")
        request = await home.until_asked(live)
        [said] = of_kind(home.events(live), AssistantMessage)
        assert any(said.seq <= seq < request.seq for seq in synced)
        live.answer(request.request_id, AnswerBody(allow=True))
        await home.until_idle(live)


async def test_a_call_is_put_in_the_place_of_another_tools(tmp_path: Path) -> None:
    other = own("PreToolUse", updatedTool="Read", updatedInput={"file_path": "a.txt"})
    settings(tmp_path, PreToolUse=[{"matcher": "Bash", "command": says(tmp_path, "other.py", other)}])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("content")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="cat a.txt")), say("ok"))
        events = await home.run(live, "go", answers=[AnswerBody(allow=True)])
        [end] = of_kind(events, ToolEnd)
        assert (end.tool_name, end.is_error, "content" in end.output) == ("read", False, True)


@pytest.mark.parametrize(
    "fields", [{"updatedTool": "nothing_of_that_name"}, {"updatedInput": "a text"}, {"updatedInput": [1]}]
)
async def test_a_rewrite_that_is_no_call_ends_the_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    settings(tmp_path, PreToolUse=[{"command": says(tmp_path, "bad.py", own("PreToolUse", **fields))}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo 1")), say("never"))
        events = await home.run(live, "go")
        assert [error.code for error in of_kind(events, Error)] == ["invalid_hook_output"]
        assert of_kind(events, Done)[0].stop_reason == "error"
        assert of_kind(events, ToolStart) == []
        await same_after_reload(home, live)


async def test_a_rewrite_is_validated_before_anybody_is_asked(tmp_path: Path) -> None:
    wrong = own("PreToolUse", updatedInput={"no_such_field": 1})
    settings(tmp_path, PreToolUse=[{"command": says(tmp_path, "wrong.py", wrong)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo 1")), say("ok"))
        events = await home.run(live, "go")
        [end] = of_kind(events, ToolEnd)
        assert end.output.startswith("The input of bash is not valid:")
        assert of_kind(events, PermissionRequest) == []


async def test_what_hooks_say_after_a_call_comes_with_its_result(tmp_path: Path) -> None:
    after = {"decision": "block", "reason": "Two lint errors.", **own("PostToolUse", additionalContext="Style: PEP 8.")}
    before = own("PreToolUse", additionalContext="Mind the style.")
    settings(
        tmp_path,
        PreToolUse=[{"command": says(tmp_path, "before.py", before)}],
        PostToolUse=[{"command": says(tmp_path, "after.py", after)}],
    )
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo 1")), say("ok"))
        [end] = of_kind(await home.run(live, "go"), ToolEnd)
        assert end.output == "\n\n".join(
            (
                "1\n[exit code 0]",
                '<hook-context event="PreToolUse">\nMind the style.\n</hook-context>',
                '<hook-context event="PostToolUse">\nStyle: PEP 8.\n</hook-context>',
                '<hook-feedback event="PostToolUse">\nTwo lint errors.\n</hook-feedback>',
            )
        )
        await same_after_reload(home, live)


async def test_a_replaced_output_is_all_that_anybody_sees(tmp_path: Path) -> None:
    replaced = own("PostToolUse", updatedToolOutput={"stdout": "redacted", "stderr": ""})
    settings(tmp_path, PostToolUse=[{"command": says(tmp_path, "redact.py", replaced)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="accept-edits")
        home.provider.script(use(call("write", file_path="a.txt", content="secret")), say("ok"))
        [end] = of_kind(await home.run(live, "go"), ToolEnd)
        assert (end.output, end.display) == ("redacted", None)


async def test_context_after_a_batch_stands_behind_its_results(tmp_path: Path) -> None:
    context = own("PostToolBatch", additionalContext="CI is red.")
    settings(tmp_path, PostToolBatch=[{"command": says(tmp_path, "ci.py", context)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo 1")), say("ok"))
        await home.run(live, "go")
        results = home.provider.requests[-1].messages[-1]
        assert [block.type for block in results.content] == ["tool_result", "text"]
        assert told(home) == ['<hook-context event="PostToolBatch">\nCI is red.\n</hook-context>']
        await same_after_reload(home, live)


# --- permission ---------------------------------------------------------------------------------------------------


async def test_a_hook_answers_in_a_persons_place(tmp_path: Path) -> None:
    allow = own("PermissionRequest", decision={"behavior": "allow"})
    settings(tmp_path, PermissionRequest=[{"matcher": "Bash", "command": says(tmp_path, "allow.py", allow)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch made")), say("ok"))
        events = await home.run(live, "go")
        assert of_kind(events, PermissionRequest) == []
        assert of_kind(events, ToolEnd)[0].is_error is False


async def test_a_hook_refuses_in_a_persons_place(tmp_path: Path) -> None:
    deny = own("PermissionRequest", decision={"behavior": "deny", "message": "Not on Fridays"})
    settings(tmp_path, PermissionRequest=[{"command": says(tmp_path, "deny.py", deny)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch made")), say("ok"))
        events = await home.run(live, "go")
        assert of_kind(events, PermissionRequest) == []
        assert "Not on Fridays" in of_kind(events, ToolEnd)[0].output


async def test_a_hook_does_not_allow_what_always_needs_a_person(tmp_path: Path) -> None:
    allow = own("PermissionRequest", decision={"behavior": "allow"})
    settings(tmp_path, PermissionRequest=[{"command": says(tmp_path, "allow.py", allow)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("write", file_path=".envrc", content="x")), say("ok"))
        events = await home.run(live, "go", answers=[AnswerBody(allow=False)])
        assert len(of_kind(events, PermissionRequest)) == 1
        assert of_kind(events, ToolStart) == []


async def test_a_hook_interrupts_with_its_refusal(tmp_path: Path) -> None:
    deny = own("PermissionRequest", decision={"behavior": "deny", "message": "No.", "interrupt": True})
    settings(tmp_path, PermissionRequest=[{"command": says(tmp_path, "deny.py", deny)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch made")), say("never"))
        events = await home.run(live, "go")
        assert of_kind(events, Done)[0].stop_reason == "hook_stopped"


async def test_a_person_who_is_needed_is_notified(tmp_path: Path) -> None:
    settings(tmp_path, Notification=[{"matcher": "permission_prompt", "command": script(tmp_path, "log.py", LOGGER)}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch made")), say("ok"))
        live.prompt("go")
        request = await home.until_asked(live)
        with anyio.fail_after(5):
            while not logged(tmp_path):  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        live.answer(request.request_id, AnswerBody(allow=True))
        await home.until_idle(live)
    [read] = logged(tmp_path)
    assert (read["notification_type"], read["message"]) == ("permission_prompt", "bash needs your permission")


# --- the end ------------------------------------------------------------------------------------------------------


async def test_stop_hooks_make_a_run_go_on_at_most_five_times(tmp_path: Path) -> None:
    stubborn = script(tmp_path, "stubborn.py", LOGGER + "\nprint(json.dumps({'decision': 'block', 'reason': 'More.'}))")
    settings(tmp_path, Stop=[{"command": stubborn}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(*[say(f"answer {n}") for n in range(9)])
        events = await home.run(live, "go")
        [done] = of_kind(events, Done)
        assert (done.stop_reason, done.turns, done.text) == ("end_turn", 6, "answer 5")
        assert len(notices(events, "stop_hook_overruled")) == 1
    assert [one["stop_hook_active"] for one in logged(tmp_path)] == [False, *[True] * 5]


async def test_what_the_user_says_meanwhile_goes_before_a_stop_hook(tmp_path: Path) -> None:
    settings(tmp_path, Stop=[{"command": script(tmp_path, "log.py", LOGGER)}])
    async with house(tmp_path) as home:
        live = await home.session()
        held = anyio.Event()
        turn = say("first")
        turn.holds = held
        home.provider.script(turn, say("second"))
        live.prompt("go")
        await home.provider.streaming.wait()
        live.prompt("and this", when_busy="steer")
        held.set()
        await home.until_idle(live)
    assert [one["last_assistant_message"] for one in logged(tmp_path)] == ["second"]


async def test_a_crash_does_not_let_stop_hooks_send_the_model_on_more_often(tmp_path: Path) -> None:
    settings(tmp_path, Stop=[{"command": says(tmp_path, "stop.py", {"decision": "block", "reason": "More."})}])
    async with house(tmp_path) as home:
        live = await home.session()
        opens = anyio.Event()
        home.provider.script(say("1"), say("2"), say("3"), Turn(opens=opens))
        live.prompt("go")
        with anyio.fail_after(20):
            while len(home.provider.requests) < 4:  # noqa: ASYNC110 - a request is no event
                await anyio.sleep(0.001)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(*[say("x") for _ in range(6)])
        live.resume_run()
        with anyio.fail_after(20):
            while live.is_busy:  # noqa: ASYNC110 - of real processes
                await anyio.sleep(0.001)
        sent = [event for event in of_kind(home.events(live), UserMessage) if event.source == "hook"]
        assert (len(sent), len(home.provider.requests)) == (2, 3)
        assert len(notices(home.events(live), "stop_hook_overruled")) == 1
        home.provider.script(say("y"))
        with anyio.fail_after(20):
            live.prompt("again")
            while live.is_busy:  # noqa: ASYNC110 - of real processes
                await anyio.sleep(0.001)
        assert len(home.provider.requests) == 3 + 6


async def steered(home: House, first: str) -> tuple[LiveSession, list[NumberedEvent]]:
    """A run with this prompt, to which `first, then left` is said while its model answers."""
    live = await home.session()
    opens = anyio.Event()
    home.provider.script(Turn([TextPart("One.")], [Text(text="One.")], opens=opens), say("Two."))
    live.prompt(first)
    await home.until(live, ModelStart)
    live.prompt("the branch, then left", when_busy="steer")
    opens.set()
    with anyio.fail_after(20):
        while live.is_busy:  # noqa: ASYNC110 - of real processes
            await anyio.sleep(0.001)
    return live, home.events(live)


async def test_what_steers_a_run_is_heard_as_its_prompt_is(tmp_path: Path) -> None:
    settings(tmp_path, UserPromptSubmit=[{"command": script(tmp_path, "context.py", CONTEXT)}])
    async with house(tmp_path) as home:
        live, events = await steered(home, "go")
        assert told(home) == [
            '<hook-context event="UserPromptSubmit">\nThe branch is main.\n</hook-context>',
            "the branch, then left",
        ]
        assert [event.typed_text for event in of_kind(events, UserMessage)] == ["go", "the branch, then left"]
        await same_after_reload(home, live)


BLOCKS_LEFT = """
import json, sys
if "left" in json.load(sys.stdin)["prompt"]:
    print("not left", file=sys.stderr)
    sys.exit(2)
"""


async def test_what_steers_a_run_and_is_blocked_reaches_no_model_and_the_run_ends_as_it_would(tmp_path: Path) -> None:
    settings(tmp_path, UserPromptSubmit=[{"command": script(tmp_path, "block.py", BLOCKS_LEFT)}])
    async with house(tmp_path) as home:
        live, events = await steered(home, "go")
        assert notices(events, "prompt_blocked") == ["A hook blocked the prompt: not left"]
        [done] = of_kind(events, Done)
        assert (done.stop_reason, done.text, len(home.provider.requests)) == ("end_turn", "One.", 1)
        assert len(live.queue) == 0
        assert "left" not in str(live.agent.history.transcript.messages)


async def test_what_steers_a_run_and_is_to_stop_it_stops_it(tmp_path: Path) -> None:
    halts = BLOCKS_LEFT.replace("sys.exit(2)", 'print(json.dumps({"continue": False}))')
    settings(tmp_path, UserPromptSubmit=[{"command": script(tmp_path, "halt.py", halts)}])
    async with house(tmp_path) as home:
        _, events = await steered(home, "go")
        assert of_kind(events, Done)[0].stop_reason == "hook_stopped"
        assert len(home.provider.requests) == 1


async def test_what_an_async_hook_says_with_exit_code_2_is_told_with_the_next_prompt(tmp_path: Path) -> None:
    line = script(tmp_path, "late.sh", "#!/bin/bash\necho 'The build is broken.' >&2\nexit 2\n")
    settings(tmp_path, PostToolUse=[{"command": line, "asyncRewake": True}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("ls")), say("Done."), say("I see."))
        events = await home.run(live, "go")
        with anyio.fail_after(10):
            while not live.agent.history.notes:  # noqa: ASYNC110 - a note is no event
                await anyio.sleep(0.001)
        await home.run(live, "and?")
        assert "The build is broken." in told(home)[0]
        assert told(home)[1] == "and?"
        assert notices(events, "hook_failed") == []
        await same_after_reload(home, live)


@pytest.mark.parametrize("how", ["end_turn", "interrupted", "error"])
async def test_run_end_hooks_run_exactly_once_whatever_happened(tmp_path: Path, how: str) -> None:
    command = script(tmp_path, "log.py", LOGGER)
    settings(tmp_path, RunEnd=[{"command": command}], StopFailure=[{"command": command}])
    async with house(tmp_path) as home:
        live = await home.session()
        turn = say("text")
        if how == "interrupted":
            turn.holds = anyio.Event()
        elif how == "error":
            turn.breaks = RuntimeError("a bug")
        home.provider.script(turn)
        live.prompt("go")
        if how == "interrupted":
            await home.provider.streaming.wait()
            live.cancel()
        await home.until_idle(live)
        [done] = of_kind(home.events(live), Done)
        assert done.stop_reason == how
    read = logged(tmp_path)
    assert [one["stop_reason"] for one in read if one["hook_event_name"] == "RunEnd"] == [how]
    failures = [one["error"] for one in read if one["hook_event_name"] == "StopFailure"]
    assert failures == (["internal"] if how == "error" else [])


# --- compaction ---------------------------------------------------------------------------------------------------


async def test_a_hook_keeps_the_context_as_it_is(tmp_path: Path) -> None:
    block = script(tmp_path, "no.sh", "#!/bin/bash\necho 'not now' >&2\nexit 2\n")
    settings(tmp_path, PreCompact=[{"matcher": "manual", "command": block}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("x"))
        await home.run(live, "go")
        outcome = live.compact()
        await home.until_idle(live)
        assert str(await outcome.wait()) == "A hook blocked the compaction: not now"
        assert of_kind(home.events(live), Compacted) == []


async def test_hooks_tell_the_model_again_what_a_summary_may_have_lost(tmp_path: Path) -> None:
    settings(tmp_path, SessionStart=[{"matcher": "compact", "command": "echo Remember the rules."}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("x"), say("<summary>so far</summary>"), say("y"))
        await home.run(live, "go")
        live.compact()
        await home.until_idle(live)
        await home.run(live, "next")
        assert '<hook-context event="SessionStart">\nRemember the rules.\n</hook-context>' in told(home)
        await same_after_reload(home, live)


# --- restarts -----------------------------------------------------------------------------------------------------


async def test_a_crash_while_a_hook_decides_runs_the_hook_again_and_the_tool_once(tmp_path: Path) -> None:
    slow = script(tmp_path, "slow.py", LOGGER + "\nimport time\ntime.sleep(30)\n")
    settings(tmp_path, PreToolUse=[{"command": slow}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo ran >> runs")))
        live.prompt("go")
        with anyio.fail_after(5):
            while not logged(tmp_path):  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        session = live.id
    settings(tmp_path, PreToolUse=[{"command": script(tmp_path, "log.py", LOGGER)}])
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Done."))
        live.resume_run()
        await home.until_idle(live)
        assert of_kind(home.events(live), Done)[0].stop_reason == "end_turn"
    assert len(logged(tmp_path)) == 2
    assert (tmp_path / "work" / "runs").read_text() == "ran\n"


async def test_a_call_that_a_hook_made_of_a_read_is_not_run_again_after_a_crash(tmp_path: Path) -> None:
    other = own("PreToolUse", updatedTool="Bash", updatedInput={"command": "echo ran >> runs; sleep 30"})
    settings(tmp_path, PreToolUse=[{"matcher": "Read", "command": says(tmp_path, "other.py", other)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("read", file_path="a.txt")))
        live.prompt("go")
        with anyio.fail_after(5):
            while not (tmp_path / "work" / "runs").exists():  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        session = live.id
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Done."))
        live.resume_run()
        await home.until_idle(live)
        [end] = of_kind(home.events(live), ToolEnd)
        assert end.output.startswith("outcome unknown")
    assert (tmp_path / "work" / "runs").read_text() == "ran\n"


async def test_a_prompt_that_no_hook_has_heard_is_not_told_to_the_model(tmp_path: Path) -> None:
    """Not even where the process died while a hook heard it, and the prompt was given up."""
    slow = script(tmp_path, "slow.py", LOGGER + "\nimport time\ntime.sleep(30)\n")
    settings(tmp_path, UserPromptSubmit=[{"command": slow}])
    async with house(tmp_path) as home:
        live = await home.session()
        live.prompt("my secret")
        with anyio.fail_after(5):
            while not logged(tmp_path):  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        session = live.id
    settings(tmp_path, UserPromptSubmit=[{"command": "true"}])
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.cancel()
        await home.until_idle(live)
        assert of_kind(home.events(live), Done)[0].stop_reason == "interrupted"
        home.provider.script(say("Hello."))
        await home.run(live, "hello")
        assert told(home) == ["hello"]


# --- side by side -------------------------------------------------------------------------------------------------


async def test_a_call_that_is_made_another_does_not_run_beside_its_group(tmp_path: Path) -> None:
    rewriter = script(
        tmp_path,
        "second.py",
        """
import json, sys
if json.load(sys.stdin)["tool_use_id"] == "c2":
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedTool": "Write",
        "updatedInput": {"file_path": "new.txt", "content": "x"}}}))
""",
    )
    settings(tmp_path, PreToolUse=[{"command": rewriter}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(*(call("glob", f"c{n}", pattern="*.txt") for n in (1, 2, 3, 4))), say("ok"))
        events = await home.run(live, "go")
        starts = of_kind(events, ToolStart)
        assert [(start.call_id, start.group, start.tool_name) for start in starts] == [
            ("c1", 0, "glob"),
            ("c2", 1, "write"),
            ("c3", 2, "glob"),
            ("c4", 2, "glob"),
        ]
        outputs = {end.call_id: end.output for end in of_kind(events, ToolEnd)}
        assert ("new.txt" in outputs["c1"], "new.txt" in outputs["c3"]) == (False, True)


async def test_what_runs_beside_a_call_that_ends_the_run_is_finished(tmp_path: Path) -> None:
    stopper = script(
        tmp_path,
        "stop.py",
        """
import json, sys
if json.load(sys.stdin)["tool_use_id"] == "c1":
    print(json.dumps({"continue": False, "stopReason": "enough"}))
""",
    )
    settings(tmp_path, PostToolUse=[{"command": stopper}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        group = [call("glob", f"c{n}", pattern="*.txt") for n in (1, 2)]
        home.provider.script(use(*group, call("bash", "c3", command="touch made")), say("never"))
        events = await home.run(live, "go")
        assert of_kind(events, Done)[0].stop_reason == "hook_stopped"
        ended = {end.call_id: (end.cancelled, end.output) for end in of_kind(events, ToolEnd)}
        assert [cancelled for cancelled, _ in ended.values()] == [False, False, True]
        assert ended["c3"] == (True, "not run: a hook of the user ended the run")
    assert not (tmp_path / "work" / "made").exists()


async def test_a_cancel_during_a_hook_keeps_what_the_call_came_to(tmp_path: Path) -> None:
    slow = script(tmp_path, "slow.py", LOGGER + "\nimport time\ntime.sleep(30)\n")
    settings(tmp_path, PostToolUse=[{"command": slow}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo done")), say("never"))
        live.prompt("go")
        with anyio.fail_after(5):
            while not logged(tmp_path):  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        live.cancel()
        await home.until_idle(live)
        [end] = of_kind(home.events(live), ToolEnd)
        assert (end.output, end.is_error) == ("done\n[exit code 0]", False)


# --- a repository's hooks -----------------------------------------------------------------------------------------


async def test_a_repositorys_hook_runs_once_a_person_has_approved_it_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude"
    folder.mkdir(parents=True)

    def write(line: str) -> None:
        hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": line}]}]}
        (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))

    async def runs_in(home: House) -> bool:
        live = await home.session()
        home.provider.script(say("x"))
        await home.run(live, "go")
        made = tmp_path / "work" / "made"
        has_run = made.exists()
        made.unlink(missing_ok=True)
        return has_run

    write("touch made")
    work = (tmp_path / "work").resolve()
    async with house(tmp_path) as home:
        assert not await runs_in(home)
        [waiting] = await home.app.find_approvals([work])
        await home.app.decide_approval([work], waiting.id, allow=True)
        assert await runs_in(home)
        write("touch made; touch evil")
        assert not await runs_in(home)
    assert not (work / "evil").exists()


# --- what hooks run ---


async def changes_of_a_script(home: House, live: LiveSession, *calls: ToolCall) -> tuple[list[str], list[str]]:
    """What was asked about, and what came of it."""
    home.provider.script(use(*calls), say("Done."))
    events = await home.run(live, "go", [AnswerBody(allow=False)] * len(calls))
    asked = [str(event.reasons) for event in of_kind(events, PermissionRequest)]
    return asked, [event.output for event in of_kind(events, ToolEnd)]


@pytest.mark.parametrize("mode", ["accept-edits", "yolo"])
async def test_the_model_changes_no_script_of_a_hook_unasked(tmp_path: Path, mode: str) -> None:
    """By no tool, no line of a shell, and no program that a sandboxed command runs."""
    work = tmp_path / "work"
    work.mkdir()
    line = script(work, "check.sh", "#!/bin/sh\nexit 0\n").removeprefix(f"{work}/")
    before = (work / "check.sh").read_text()
    settings(tmp_path, PreToolUse=[{"command": f"./{line}"}])
    async with house(tmp_path) as home:
        live = await home.session(mode=mode)
        asked, came_to = await changes_of_a_script(
            home,
            live,
            call("write", "w", file_path="check.sh", content="exit 1"),
            call("bash", "b", command="echo exit 1 > check.sh"),
        )
        assert [("check.sh" in reasons, "protected" in reasons) for reasons in asked] == [(True, True)] * 2, came_to
        if home.app.sandbox.is_available and mode == "yolo":
            program = f"{os.path.realpath(sys.executable)} -c \"open('check.sh', 'a').write('#')\""
            asked, [came_to_last] = await changes_of_a_script(home, live, call("bash", "p", command=program))
            assert (asked, "Read-only file system" in came_to_last) == ([], True)
    assert (work / "check.sh").read_text() == before
