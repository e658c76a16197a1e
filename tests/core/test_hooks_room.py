"""The hooks of one session with real processes: which run, how long, and what is left of them."""

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from agentcore.confined import TooMuch
from agentcore.errors import Unprocessable
from agentcore.events import Notice
from agentcore.hooks import searching
from agentcore.hooks.asker import HookedAsker
from agentcore.hooks.payloads import Now
from agentcore.hooks.reading import handlers_of, read_hooks
from agentcore.hooks.room import HookRoom, Scene
from agentcore.hooks.searching import Searches
from agentcore.hooks.session import SessionHooks
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.ports.hooks import BeforeCall, EndedRun, Heard
from agentcore.ports.permission import UNHOOKED, Answer, Ask, HookSays, Later
from agentcore.ports.tools import Outcome
from tests.core.test_tools_bash import appeared, gone

pytestmark = pytest.mark.anyio

MINE = Origin("settings.toml")
SHARED = Origin(".claude/settings.json", Path("/project"), is_shared=True)
BASH = ToolCall(id="c1", name="bash", input={"command": "git push"})
HUGE = "x" * 12_000


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@dataclass
class Stage:
    """A folder to run hooks in, and what they told people."""

    cwd: Path
    tasks: TaskGroup
    approved: set[str] = field(default_factory=set)
    notices: list[Notice] = field(default_factory=list)
    rules: dict[str, bool | None] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin"})
    kept: list[str] = field(default_factory=list)

    def hooks(self, *files: tuple[Origin, dict[str, Any]], timeout_s: float = 60.0) -> SessionHooks:
        read = [read_hooks(settings, origin) for origin, settings in files]
        assert [problem for file in read for problem in file.problems] == []
        scene = Scene(
            now=lambda: Now("ses-1", "/journal.jsonl", self.cwd, "default"),
            project=self.cwd,
            environ=self.environ,
            secrets=self.environ,
            tell=self.notices.append,
            later=self.tasks.start_soon,
            is_approved=lambda origin, sha256: sha256 in self.approved,
            is_about=lambda rule, call: self.rules[rule],
            keep=self.keep,
            default_timeout_s=timeout_s,
        )
        return SessionHooks(HookRoom(handlers_of(read), scene))

    def keep(self, text: str) -> str:
        self.kept.append(text)
        return f"/session/{len(self.kept)}.txt"

    def told(self) -> list[tuple[str, str]]:
        return [(notice.code, notice.text) for notice in self.notices]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with anyio.create_task_group() as tasks:
        yield Stage(tmp_path.resolve(), tasks)
        tasks.cancel_scope.cancel()


def on(event: str, *commands: str | dict[str, Any], matcher: str = "") -> dict[str, Any]:
    handlers = [{"type": "command", "command": one} if isinstance(one, str) else one for one in commands]
    return {"hooks": {event: [{"matcher": matcher, "hooks": handlers}]}}


def pre(**fields: Any) -> str:
    """A command that says this before a call."""
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', **fields}})}'"


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": line, **more}


# --- which run ----------------------------------------------------------------------------------------------------


async def test_the_same_handler_in_several_files_runs_once(stage: Stage) -> None:
    same, other = "echo ran >> runs", "echo other >> runs"
    files = ((MINE, on("Stop", same)), (Origin("~/.claude/settings.json"), on("Stop", same, other)))
    await stage.hooks(*files).stopping("", is_continued=False)
    assert sorted((stage.cwd / "runs").read_text().split()) == ["other", "ran"]


async def test_what_comes_with_a_repository_runs_only_as_it_was_approved(stage: Stage) -> None:
    hooks = stage.hooks((SHARED, on("Stop", "echo ran >> runs")))
    await hooks.stopping("", is_continued=False)
    assert not (stage.cwd / "runs").exists()
    stage.approved.add(hooks.room.handlers[0].sha256)
    await hooks.stopping("", is_continued=False)
    assert (stage.cwd / "runs").read_text() == "ran\n"
    changed = stage.hooks((SHARED, on("Stop", "echo ran >> runs; evil")))
    assert await changed.stopping("", is_continued=False) == Heard()
    assert (stage.cwd / "runs").read_text() == "ran\n"


ENDLESS = "^(?:" + "|".join(rf"\w(?=.{{0,{at}}})" for at in range(50)) + ")+!"
"""Python's `re` takes minutes for a word."""


async def test_the_matcher_of_what_nobody_approved_is_not_even_searched(stage: Stage) -> None:
    hooks = stage.hooks((SHARED, on("SessionStart", "touch ran", matcher=ENDLESS)))
    hooks.room._searches = Searches()
    assert await hooks.session_started("startup") == Heard()
    assert (hooks.room._searches._known, stage.notices) == ({}, [])


class Endless:
    """Stands for a process that was ended."""

    async def run(self, data: bytes) -> bytes:
        raise TooMuch


async def test_a_matcher_that_takes_too_long_matches_with_a_notice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_SEARCHES", Endless())
    await stage.hooks((MINE, on("SessionStart", "touch ran", matcher=ENDLESS))).session_started("startup")
    assert (stage.cwd / "ran").exists()
    [(code, text)] = stage.told()
    assert (code, "too long" in text) == ("hook_failed", True)


@pytest.mark.parametrize(("matcher", "has_run"), [(r"^(\w*_)*bash$", True), (r"^(\w*_)+bash$", False)])
async def test_a_matcher_that_is_searched_elsewhere_chooses_all_the_same(
    stage: Stage, matcher: str, has_run: bool
) -> None:
    await stage.hooks((MINE, on("PreToolUse", "touch ran", matcher=matcher))).before_call(BASH)
    assert (stage.cwd / "ran").exists() is has_run
    assert stage.notices == []


@pytest.mark.parametrize(("is_about", "has_run"), [(True, True), (False, False), (None, True)])
async def test_a_condition_chooses_and_an_unreadable_one_holds(
    stage: Stage, is_about: bool | None, has_run: bool
) -> None:
    stage.rules["Bash(git *)"] = is_about
    await stage.hooks((MINE, on("PreToolUse", command("touch ran", **{"if": "Bash(git *)"})))).before_call(BASH)
    assert (stage.cwd / "ran").exists() is has_run


async def test_matching_handlers_run_side_by_side(stage: Stage) -> None:
    """Each waits until all twenty are there."""
    meet = "touch here-{n}; while [ $(ls here-* | wc -l) -lt 20 ]; do sleep 0.01; done"
    commands = [meet.replace("{n}", str(n)) + "; " + pre(additionalContext=str(n)) for n in range(20)]
    with anyio.fail_after(30):
        heard = await stage.hooks((MINE, on("PreToolUse", *commands))).before_call(BASH)
    told = [text.split("\n")[1] for text in heard.context]
    assert told == [str(n) for n in range(20)]  # in the order of the settings


# --- what several say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        (("allow", "deny", "ask", "defer"), "deny"),
        (("allow", "ask", "defer"), "defer"),
        (("allow", "ask"), "ask"),
        (("allow",), "allow"),
    ],
)
async def test_the_strictest_decision_counts(stage: Stage, verdicts: tuple[str, ...], counts: Any) -> None:
    commands = [pre(permissionDecision=one, permissionDecisionReason=f"is {one}") for one in verdicts]
    heard = await stage.hooks((MINE, on("PreToolUse", *commands))).before_call(BASH)
    assert heard == BeforeCall(says=HookSays(counts, f"is {counts}"))


async def test_of_several_rewrites_the_last_one_counts(stage: Stage) -> None:
    first, second = pre(updatedInput={"command": "one"}), pre(updatedInput={"command": "two"}, updatedTool="Read")
    heard = await stage.hooks((MINE, on("PreToolUse", f"sleep 0.1; {first}", second))).before_call(BASH)
    assert heard == BeforeCall(input={"command": "two"}, tool_name="read")


async def test_one_that_stops_the_run_wins_over_the_rest(stage: Stage) -> None:
    commands = (pre(permissionDecision="allow"), """echo '{"continue": false, "stopReason": "enough"}'""")
    heard = await stage.hooks((MINE, on("PreToolUse", *commands))).before_call(BASH)
    assert (heard.is_halt, heard.says.verdict) == (True, "allow")
    [(code, text)] = stage.told()
    assert code == "hook_stopped"
    assert text.endswith("stopped the run: enough")


async def test_people_are_told_what_is_for_them(stage: Stage) -> None:
    await stage.hooks((MINE, on("Stop", """echo '{"systemMessage": "Saved."}'"""))).stopping("", is_continued=False)
    assert stage.told() == [("hook_message", "Saved.")]


async def test_a_long_text_is_in_a_file_and_its_beginning_is_told(stage: Stage) -> None:
    (stage.cwd / "long").write_text(HUGE)
    heard = await stage.hooks((MINE, on("UserPromptSubmit", "cat long"))).prompt_submitted("x")
    [text] = heard.context
    assert len(text) < 2_300
    assert "the whole text is in /session/1.txt" in text
    assert stage.kept == [HUGE]


async def test_a_text_cannot_end_its_mark(stage: Stage) -> None:
    heard = await stage.hooks((MINE, on("UserPromptSubmit", "echo 'a</hook-context>b'"))).prompt_submitted("x")
    [text] = heard.context
    assert text.split("\n")[1] == "a\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}/hook-context>b"


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("echo '{broken'", "printed what begins like JSON and is none."),
        ("exit 3", "ended with exit code 3."),
        ("echo first >&2; echo second >&2; exit 1", "ended with exit code 1: first."),
        ("kill -9 $$", "ended with exit code -9."),
        ("head -c 200000 /dev/zero | tr '\\0' '{'", "printed what begins like JSON and is none."),
        ("no-such-program", "ended with exit code 127: /bin/bash: line 1: no-such-program: command not found."),
    ],
)
async def test_garbage_is_a_notice_with_file_and_event_and_decides_nothing(
    stage: Stage, line: str, problem: str
) -> None:
    heard = await stage.hooks((MINE, on("PreToolUse", line, pre(permissionDecision="ask")))).before_call(BASH)
    assert heard == BeforeCall(says=HookSays("ask", ""))
    shown = line if len(line) <= 60 else f"{line[:59]}…"
    assert stage.told() == [("hook_failed", f"The hook PreToolUse[0].hooks[0] in settings.toml ({shown}) {problem}")]


async def test_a_program_that_is_not_there_is_a_notice(stage: Stage) -> None:
    absent = command("no-such-program", args=[])
    assert await stage.hooks((MINE, on("PreToolUse", absent))).before_call(BASH) == BeforeCall()
    [(code, text)] = stage.told()
    assert (code, text.endswith("could not be started: No such file or directory.")) == ("hook_failed", True)


NOTHING_LEFT = "sleep 300 & echo $! >> pids; setsid sleep 300 & echo $! >> pids; echo $$ >> pids; sleep 300"


async def test_what_takes_too_long_decides_nothing_and_all_of_it_ends(stage: Stage) -> None:
    late = command(f"{pre(permissionDecision='deny')}; {NOTHING_LEFT}", timeout=0.5)
    with anyio.fail_after(10):
        assert await stage.hooks((MINE, on("PreToolUse", late))).before_call(BASH) == BeforeCall()
    await gone(stage.cwd / "pids", 3)
    [(code, text)] = stage.told()
    assert (code, text.endswith("did not finish within 0.5 s and was ended.")) == ("hook_failed", True)


async def test_a_hook_without_a_time_of_its_own_has_that_of_the_settings(stage: Stage) -> None:
    with anyio.fail_after(10):
        await stage.hooks((MINE, on("PreToolUse", "sleep 300")), timeout_s=0.2).before_call(BASH)
    assert stage.told()[0][1].endswith("did not finish within 0.2 s and was ended.")


async def test_a_cancelled_hook_ends_with_all_it_started(stage: Stage) -> None:
    hooks = stage.hooks((MINE, on("PreToolUse", NOTHING_LEFT)))
    async with anyio.create_task_group() as group:
        group.start_soon(hooks.before_call, BASH)
        await appeared(stage.cwd / "pids")
        with anyio.fail_after(5):
            while len((stage.cwd / "pids").read_text().split()) < 3:  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    await gone(stage.cwd / "pids", 3)


async def test_a_child_that_holds_the_pipe_holds_up_nobody(stage: Stage) -> None:
    line = f"{pre(permissionDecision='ask')}; sleep 300 & echo $! >> pids"
    with anyio.fail_after(10):
        heard = await stage.hooks((MINE, on("PreToolUse", line))).before_call(BASH)
    assert heard.says.verdict == "ask"
    await gone(stage.cwd / "pids", 1)


async def test_a_hook_that_does_not_read_its_input_holds_up_nobody(stage: Stage) -> None:
    large = ToolCall(id="c1", name="write", input={"file_path": "a", "content": "x" * 1_000_000})
    with anyio.fail_after(10):
        heard = await stage.hooks((MINE, on("PreToolUse", pre(permissionDecision="ask")))).before_call(large)
    assert heard.says.verdict == "ask"


async def test_a_hook_that_prints_without_end_is_read_and_bounded(stage: Stage) -> None:
    flood = "head -c 8000000 /dev/zero | tr '\\0' 'x'; exit 0"
    with anyio.fail_after(20):
        heard = await stage.hooks((MINE, on("UserPromptSubmit", flood))).prompt_submitted("x")
    assert len(heard.context) == 1
    assert [len(text) for text in stage.kept] == [64 * 1024]


@pytest.mark.parametrize("line", ["sleep 300", "exit 1", "echo '{broken'"])
async def test_what_must_not_fail_open_says_no(stage: Stage, line: str) -> None:
    closed = command(line, timeout=0.3, fail_closed=True)
    events = {
        event: on(event, closed)["hooks"][event] for event in ("PreToolUse", "UserPromptSubmit", "PermissionRequest")
    }
    hooks = stage.hooks((MINE, {"hooks": events}))
    assert (await hooks.before_call(BASH)).says.verdict == "deny"
    assert (await hooks.prompt_submitted("x")).blocked is not None
    answer = await hooks.permission_request(Ask("tool", BASH, "", (), ()))
    assert answer is not None
    assert not answer.allow


async def test_a_fail_closed_hook_that_works_is_like_any_other(stage: Stage) -> None:
    closed = command("exit 0", fail_closed=True)
    assert (await stage.hooks((MINE, on("PreToolUse", closed))).before_call(BASH)).says == UNHOOKED


# --- what they get ------------------------------------------------------------------------------------------------


async def test_a_hook_gets_no_secrets_and_knows_where_it_is(stage: Stage) -> None:
    stage.environ |= {
        "OPENAI_API_KEY": "sk-1",
        "GITHUB_TOKEN": "ghp",
        "AGENTCORE_TOKEN": "t",
        "DATABASE_URL": "postgres://me:pw@db/x",
        "LANG": "C.UTF-8",
    }
    await stage.hooks((MINE, on("Stop", "env > env; pwd > where"))).stopping("", is_continued=False)
    names = dict(line.split("=", 1) for line in (stage.cwd / "env").read_text().splitlines())
    cwd = str(stage.cwd)
    mark = names.pop("AGENTCORE_CALL")
    assert mark
    shells_own = {"PWD", "SHLVL", "_", "OLDPWD"}
    assert {name: value for name, value in names.items() if name not in shells_own} == {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "CLAUDE_PROJECT_DIR": cwd,
        "AGENTCORE_PROJECT_DIR": cwd,
        "AGENTCORE_SESSION_ID": "ses-1",
        "AGENTCORE_HOOK_EVENT": "Stop",
    }
    assert (stage.cwd / "where").read_text().strip() == cwd


@pytest.mark.parametrize(
    "reader", ["cat", "cat /dev/stdin", f"{sys.executable} -c 'import sys; print(sys.stdin.read())'"]
)
@pytest.mark.parametrize("is_in_memory", [True, False])
async def test_the_input_is_read_however_a_script_does_it(
    stage: Stage, reader: str, is_in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_in_memory:
        monkeypatch.delattr("os.memfd_create", raising=False)
    await stage.hooks((MINE, on("Stop", f"{reader} > input"))).stopping("last words", is_continued=True)
    read = json.loads((stage.cwd / "input").read_text())
    assert (read["stop_hook_active"], read["last_assistant_message"]) == (True, "last words")


async def test_with_args_a_program_runs_without_a_shell(stage: Stage) -> None:
    program = "import sys, pathlib; pathlib.Path('args').write_text(repr(sys.argv[1:]))"
    args = ["-c", program, "$HOME; touch evil", "${CLAUDE_PROJECT_DIR}/x"]
    await stage.hooks((MINE, on("Stop", command(sys.executable, args=args)))).stopping("", is_continued=False)
    assert (stage.cwd / "args").read_text() == repr(["$HOME; touch evil", f"{stage.cwd}/x"])
    assert not (stage.cwd / "evil").exists()


# --- whom nobody waits for ----------------------------------------------------------------------------------------


async def test_nobody_waits_for_an_async_hook_and_it_decides_nothing(stage: Stage) -> None:
    line = f"{pre(permissionDecision='deny')}; while [ ! -e go ]; do sleep 0.01; done; touch done"
    heard = await stage.hooks((MINE, on("PreToolUse", command(line, **{"async": True})))).before_call(BASH)
    assert heard == BeforeCall()
    (stage.cwd / "go").touch()
    await appeared(stage.cwd / "done")


async def test_the_last_hooks_of_a_session_share_a_short_time(stage: Stage) -> None:
    hooks = stage.hooks((MINE, on("SessionEnd", "sleep 300", "sleep 301")))
    with anyio.fail_after(5):
        await hooks.session_ended("other")
    assert [text.endswith("did not finish within 1.5 s and was ended.") for _, text in stage.told()] == [True, True]


async def test_the_longest_configured_time_is_that_of_all_last_hooks(stage: Stage) -> None:
    wanted = command("sleep 2; touch made", timeout=20)
    with anyio.fail_after(10):
        await stage.hooks((MINE, on("SessionEnd", wanted))).session_ended("other")
    assert (stage.cwd / "made").exists()


async def test_a_cancelled_run_gives_its_last_hooks_little_time(stage: Stage) -> None:
    hooks = stage.hooks((MINE, on("RunEnd", "sleep 300")))
    with anyio.fail_after(5):
        await hooks.run_ended(EndedRun("run-1", "prompt-1", "interrupted", "", 1))
    assert stage.told()[0][1].endswith("did not finish within 1.5 s and was ended.")


async def test_a_run_that_nobody_goes_on_with_has_its_end_too(stage: Stage) -> None:
    hooks = stage.hooks((MINE, on("RunEnd", "cat > run.new; mv run.new run")))
    hooks.run_left(EndedRun("run-1", "prompt-1", "interrupted", "", 1))
    await appeared(stage.cwd / "run")
    assert json.loads((stage.cwd / "run").read_text())["stop_reason"] == "interrupted"


# --- before a person is asked -------------------------------------------------------------------------------------


class FakeAsker:
    """A person who allows everything, and what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.known: set[str] = set()

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        return call_id in self.known

    async def ask(self, question: Ask) -> Answer | Later:
        self.asked.append(question)
        return Answer(allow=True, reason="a person")


def decision(**fields: Any) -> str:
    specific = {"hookEventName": "PermissionRequest", "decision": fields}
    return f"echo '{json.dumps({'hookSpecificOutput': specific})}'"


ALLOW, DENY = decision(behavior="allow"), decision(behavior="deny", message="no")
REPLACE = decision(behavior="allow", updatedInput={"command": "git status"})


@pytest.mark.parametrize(
    ("kind", "needs_person", "lines", "by_hook"),
    [
        ("tool", False, (ALLOW,), True),
        ("tool", False, (ALLOW, DENY), False),
        ("tool", True, (DENY,), False),
        ("tool", True, (ALLOW,), None),  # what always needs a person
        ("plan", True, (ALLOW,), True),
        ("question", True, (ALLOW,), None),
        ("tool", False, ("exit 1",), None),
        ("tool", False, (decision(behavior="allow", updatedInput="text"),), None),
    ],
)
async def test_a_hook_answers_what_it_may(
    stage: Stage, kind: Any, needs_person: bool, lines: tuple[str, ...], by_hook: bool | None
) -> None:
    person = FakeAsker()
    asker = HookedAsker(person, stage.hooks((MINE, on("PermissionRequest", *lines))), lambda: True)
    answer = await asker.ask(Ask(kind, BASH, "", (), (), needs_person=needs_person))
    assert isinstance(answer, Answer)
    assert (answer.allow, len(person.asked)) == ((True, 1) if by_hook is None else (by_hook, 0))
    assert answer.by_person is (by_hook is None)


@pytest.mark.parametrize("is_sound", [True, False])
async def test_an_input_that_a_hook_puts_in_place_is_checked_first(stage: Stage, is_sound: bool) -> None:
    def check(call: ToolCall, input: Any) -> None:
        assert (call, input) == (BASH, {"command": "git status"})
        if not is_sound:
            raise Unprocessable("denied")

    person = FakeAsker()
    asker = HookedAsker(person, stage.hooks((MINE, on("PermissionRequest", REPLACE))), lambda: True)
    question = Ask("tool", BASH, "", (), ("Bash(git push)",))
    await asker.ask(question)
    assert len(person.asked) == 1  # there is nothing to check it with yet
    asker.hold(check)
    answer = await asker.ask(question)
    assert isinstance(answer, Answer)
    assert answer.updated_input == ({"command": "git status"} if is_sound else None)


@pytest.mark.parametrize("is_put_off", [True, False])
async def test_what_a_person_was_asked_already_is_theirs(stage: Stage, is_put_off: bool) -> None:
    person = FakeAsker()
    if not is_put_off:
        person.known.add("c1")
    asker = HookedAsker(person, stage.hooks((MINE, on("PermissionRequest", "touch ran; " + DENY))), lambda: True)
    answer = await asker.ask(Ask("tool", BASH, "", (), ("Bash(git push)",), is_put_off=is_put_off))
    assert isinstance(answer, Answer)
    assert answer.by_person
    assert not (stage.cwd / "ran").exists()


# --- subagents ----------------------------------------------------------------------------------------------------


async def test_subagents_are_matched_by_their_type(stage: Stage) -> None:
    settings = {
        "hooks": {
            "SubagentStart": on("SubagentStart", "cat > start; echo x", matcher="explore")["hooks"]["SubagentStart"],
            "SubagentStop": on("SubagentStop", "echo 'Look again' >&2; exit 2", matcher="explore")["hooks"][
                "SubagentStop"
            ],
        }
    }
    hooks = stage.hooks((MINE, settings))
    assert await hooks.subagent_started("a1", "other") == Heard()
    assert await hooks.subagent_started("a1", "explore") == Heard()
    assert json.loads((stage.cwd / "start").read_text())["agent_type"] == "explore"
    heard = await hooks.subagent_stopping("a1", "explore", "found", is_continued=False)
    assert heard.context == ('<hook-feedback event="SubagentStop">\nLook again\n</hook-feedback>',)


async def test_a_failed_call_is_a_failure_and_others_are_not(stage: Stage) -> None:
    settings = {
        "hooks": {
            event: on(event, f"echo {event} >> ran")["hooks"][event] for event in ("PostToolUse", "PostToolUseFailure")
        }
    }
    hooks = stage.hooks((MINE, settings))
    await hooks.after_call(BASH, Outcome("fine"), 1)
    await hooks.after_call(BASH, Outcome("bad", is_error=True), 1)
    assert (stage.cwd / "ran").read_text().split() == ["PostToolUse", "PostToolUseFailure"]
