"""The rules of hooks as tables: which names a matcher means, what an output says, what settings may hold."""

from pathlib import Path
from typing import Any

import pytest

from agentcore.confined import Bounds, Confinement
from agentcore.hooks import searching
from agentcore.hooks.handlers import BrokenAction, CommandAction, HttpAction
from agentcore.hooks.matching import names_of_tool, parse_matcher
from agentcore.hooks.moments import MOMENTS
from agentcore.hooks.output import SILENT, Permission, Said, failed, read_answered, read_printed
from agentcore.hooks.payloads import Now, common, of_call, of_question, response, text_of_response
from agentcore.hooks.reading import HookFile, handlers_of, read_hooks
from agentcore.hooks.searching import Searches
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.ports.permission import Ask

MINE = Origin("settings.toml")
SHARED = Origin(".claude/settings.json", Path("/project"), is_shared=True)


# --- matchers -----------------------------------------------------------------------------------------------------

BASH, WRITE, TASK = names_of_tool("bash"), names_of_tool("write"), names_of_tool("task")
MULTI_EDIT = names_of_tool("multi_edit")
MEMORY = names_of_tool("mcp__memory__create-entities")


@pytest.mark.parametrize(
    ("matcher", "names", "is_meant"),
    [
        ("", BASH, True),
        ("*", BASH, True),
        ("Bash", BASH, True),
        ("bash", BASH, True),
        ("Bas", BASH, False),
        ("Write|Edit", WRITE, True),
        ("Edit, Write", WRITE, True),
        ("Edit | Write", WRITE, True),
        ("Edit|MultiEdit", WRITE, False),
        ("Edit|Write", MULTI_EDIT, True),
        ("MultiEdit", MULTI_EDIT, True),
        ("^Edit$", MULTI_EDIT, True),
        ("Write", MULTI_EDIT, False),
        ("Agent", TASK, True),
        ("Task", TASK, True),
        ("task", TASK, True),
        ("mcp__memory__create-entities", MEMORY, True),
        ("mcp__memory", MEMORY, False),
        ("mcp__memory__.*", MEMORY, True),
        ("mcp__.*__create.*", MEMORY, True),
        (".*", BASH, True),
        ("^Wri", WRITE, True),
        ("rit.", WRITE, True),
        ("^rit.", WRITE, False),
        ("Edit|Writ.$", WRITE, True),
        (r"^(?<name>Ba)sh$", BASH, True),
        (r"^(?<a>B)a(?:s)h$|\k<a>x", BASH, True),
        (r"^\w+$", ("naïve",), False),
        ("Notebook.*", BASH, False),
        ("startup|resume", ("resume",), True),
        ("startup", ("clear",), False),
    ],
)
def test_a_matcher_means_these_names(matcher: str, names: tuple[str, ...], is_meant: bool) -> None:
    assert parse_matcher(matcher).matches(names) is is_meant


@pytest.mark.parametrize("matcher", ["(", "[", "*Bash", r"\p{Lu}", "(?<=a+)b", "a" * 1001 + "."])
def test_a_matcher_that_cannot_be_used_is_refused(matcher: str) -> None:
    with pytest.raises(ValueError, match="the matcher"):
        parse_matcher(matcher)


ENDLESS = "^(?:" + "|".join(rf"\w(?=.{{0,{at}}})" for at in range(50)) + ")+!"


@pytest.mark.parametrize(
    "pattern",
    [
        ENDLESS,
        r"^(?:(?:(?:\w*)*)*)*!",
        r"(?:|)" * 100 + "!",
        r"(?:a|a)" * 60 + "!",
        r"\(?" * 100 + "!",
        "a?" * 40 + "!",
        ".*" * 9 + "!",
        "(?x)^ (a|b) *!",
        "(a)(?#)*!",
        "(?i-x:(a)(b)+)",
        r"(\w+)+$",
        r"(?:\w{1,99}){1,99}!",
    ],
)
def test_what_may_search_for_ever_is_not_searched_here(pattern: str) -> None:
    matcher = parse_matcher(pattern)
    assert not matcher.ends_soon(("mcp__memory__create-entities",))


@pytest.mark.parametrize(
    "pattern",
    [
        "mcp__.*",
        "mcp__.*__create.*",
        "^(?!mcp__).*",
        "^(Edit|Write|MultiEdit)$",
        r"^mcp__(github|gitlab)__(get|list)_.*",
    ],
)
def test_what_people_write_is_searched_here(pattern: str) -> None:
    assert parse_matcher(pattern).ends_soon(MEMORY)


@pytest.mark.anyio
async def test_a_search_in_a_process_of_its_own_finds_the_same_and_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "_SEARCHES", Confinement(f"{searching.__name__}:found", Bounds(2**28, 1, 60.0)))
    searches = Searches()
    assert await searches.find(r"^(?:\w+__)+create", "MCP__memory__create") is True
    assert await searches.find(r"^(?:\w+__)+create$", "mcp__memory__create-entities") is False
    assert await searches.find(ENDLESS, "startup-and-more-than-that") is None


# --- what a hook said ---------------------------------------------------------------------------------------------

PRE = '{"hookSpecificOutput":{"hookEventName":"PreToolUse",%s}}'
START = '{"hookSpecificOutput":{"hookEventName":"SessionStart",%s}}'
POST = '{"hookSpecificOutput":{"hookEventName":"PostToolUse",%s}}'
ASK = '{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":%s}}'
OTHER = "printed a `hookSpecificOutput` whose `hookEventName` is not PreToolUse: it is ignored"


@pytest.mark.parametrize(
    ("event", "exit_code", "stdout", "stderr", "said"),
    [
        # exit 0 and plain text
        ("PreToolUse", 0, "", "", SILENT),
        ("PreToolUse", 0, "looks fine", "chatter", SILENT),
        ("SessionStart", 0, " the branch is main\n", "", Said(context="the branch is main")),
        ("UserPromptSubmit", 0, "[1] is no JSON object", "", Said(context="[1] is no JSON object")),
        ("PostToolUse", 0, "plain", "", SILENT),
        # exit 2
        ("PreToolUse", 2, "", "no\n", Said(verdict="deny", reason="no")),
        ("PreToolUse", 2, PRE % '"permissionDecision":"allow"', "no", Said(verdict="deny", reason="no")),
        ("PreToolUse", 2, "", "", Said(verdict="deny", reason="no reason was given")),
        ("UserPromptSubmit", 2, "said", "no", Said(blocked="no")),
        ("Stop", 2, '{"decision":"block","reason":"from JSON"}', "", Said(blocked="from JSON")),
        ("PreCompact", 2, "", "later", Said(blocked="later")),
        ("PostToolBatch", 2, "", "stop", Said(blocked="stop")),
        ("PostToolUse", 2, "", "lint", Said(blocked="lint")),
        ("PreToolUse", 2, '{"continue":false}', "no", Said(verdict="deny", reason="no", is_halt=True)),
        ("SessionStart", 2, "", "x\ny", Said(problems=("ended with exit code 2, which blocks nothing: x",))),
        ("PermissionRequest", 2, "", "", Said(problems=("ended with exit code 2, which blocks nothing",))),
        # other exit codes
        ("PreToolUse", 1, "", "\nfirst\nsecond", failed("ended with exit code 1: first")),
        ("PreToolUse", 127, "text", "", failed("ended with exit code 127")),
        ("PreToolUse", -9, "", "", failed("ended with exit code -9")),
        ("PreToolUse", 1, PRE % '"permissionDecision":"deny"', "x", Said(verdict="deny")),
        ("PreToolUse", 1, "{broken", "x", failed("ended with exit code 1: x")),
        ("SessionStart", 1, "plain", "", failed("ended with exit code 1")),
        # JSON for every event
        ("Stop", 0, "{}", "", SILENT),
        ("Stop", 0, '{"continue":false,"stopReason":"enough"}', "", Said(is_halt=True, halt_reason="enough")),
        ("Stop", 0, '{"continue":true,"suppressOutput":true}', "", SILENT),
        ("Notification", 0, '{"systemMessage":"hi"}', "", Said(message="hi")),
        ("Stop", 0, '{"decision":"block","reason":"tests"}', "", Said(blocked="tests")),
        ("Stop", 0, '{"decision":"block"}', "", Said(blocked="no reason was given")),
        ("SessionEnd", 0, '{"decision":"block","reason":"x"}', "", SILENT),
        # SessionStart
        (
            "SessionStart",
            0,
            START % '"additionalContext":"c","initialUserMessage":"hi","reloadSkills":true,"watchPaths":["a"]',
            "",
            Said(
                context="c",
                problems=(
                    "printed `initialUserMessage`, which has no effect here",
                    "printed `reloadSkills`, which has no effect here",
                    "printed `watchPaths`, which has no effect here",
                ),
            ),
        ),
        ("SessionStart", 0, START % '"reloadSkills":false,"watchPaths":[]', "", SILENT),
        # PreToolUse
        (
            "PreToolUse",
            0,
            PRE % '"permissionDecision":"ask","permissionDecisionReason":"risky","updatedInput":{"a":1}',
            "",
            Said(verdict="ask", reason="risky", input={"a": 1}),
        ),
        ("PreToolUse", 0, PRE % '"permissionDecision":"defer"', "", Said(verdict="defer")),
        (
            "PreToolUse",
            0,
            PRE % '"updatedTool":"Read","additionalContext":"c"',
            "",
            Said(tool_name="Read", context="c"),
        ),
        ("PreToolUse", 0, '{"decision":"approve","reason":"ok"}', "", Said(verdict="allow", reason="ok")),
        ("PreToolUse", 0, '{"decision":"block","reason":"no"}', "", Said(verdict="deny", reason="no")),
        # PostToolUse
        ("PostToolUse", 0, POST % '"updatedToolOutput":"x"', "", Said(output="x")),
        ("PostToolUse", 0, '{"decision":"block","reason":"lint"}', "", Said(blocked="lint")),
        # PermissionRequest
        ("PermissionRequest", 0, ASK % '{"behavior":"allow"}', "", Said(permission=Permission(True))),
        (
            "PermissionRequest",
            0,
            ASK % '{"behavior":"allow","updatedInput":{"a":1}}',
            "",
            Said(permission=Permission(True, {"a": 1})),
        ),
        (
            "PermissionRequest",
            0,
            ASK % '{"behavior":"deny","message":"no","interrupt":true}',
            "",
            Said(permission=Permission(False, message="no", is_halt=True)),
        ),
        # garbage
        ("Stop", 0, "{not json", "", failed("printed what begins like JSON and is none")),
        ("Stop", 0, '{"a":NaN}', "", failed("printed what begins like JSON and is none")),
        ("Stop", 0, "{" * 500, "", failed("printed what begins like JSON and is none")),
        ("PreToolUse", 0, POST % '"updatedToolOutput":"x"', "", failed(OTHER)),
        ("PreToolUse", 0, '{"hookSpecificOutput":{"permissionDecision":"deny"}}', "", failed(OTHER)),
        ("PreToolUse", 0, '{"hookSpecificOutput":[]}', "", failed("printed a `hookSpecificOutput` that is no object")),
        (
            "PreToolUse",
            0,
            PRE % '"permissionDecision":"maybe"',
            "",
            failed("printed a `permissionDecision` that is none of deny, defer, ask, allow"),
        ),
        ("PreToolUse", 0, '{"decision":7}', "", failed("printed a `decision` that is neither `approve` nor `block`")),
        ("Stop", 0, '{"decision":["block"]}', "", failed("printed a `decision` that is not `block`")),
        ("Stop", 0, '{"continue":"no"}', "", failed("printed a `continue` that is neither true nor false")),
        ("Stop", 0, '{"systemMessage":1}', "", failed("printed a `systemMessage` that is no text")),
        (
            "PermissionRequest",
            0,
            ASK % '{"behavior":"perhaps"}',
            "",
            failed("printed a `decision` whose `behavior` is neither `allow` nor `deny`"),
        ),
    ],
)
def test_what_a_command_printed_says_this(event: str, exit_code: int, stdout: str, stderr: str, said: Said) -> None:
    assert read_printed(MOMENTS[event], exit_code, stdout, stderr) == said


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "", SILENT),
        (204, "", SILENT),
        (200, "ok", SILENT),
        (200, '{"decision":"block","reason":"no"}', Said(blocked="no")),
        (201, "{broken", failed("printed what begins like JSON and is none")),
        (302, '{"decision":"block"}', failed("was answered with HTTP 302")),
        (403, '{"decision":"block"}', failed("was answered with HTTP 403")),
        (500, "", failed("was answered with HTTP 500")),
    ],
)
def test_what_an_address_answered_says_this(status: int, body: str, said: Said) -> None:
    assert read_answered(MOMENTS["Stop"], status, body) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("x", "x"),
        ({"output": "x", "is_error": False}, "x"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"stdout": "out", "stderr": ""}, "out"),
        ({"other": 1}, '{"other":1}'),
        ([1, 2], "[1,2]"),
        (0, "0"),
    ],
)
def test_a_replaced_output_is_a_text_of_whatever_form(value: Any, text: str | None) -> None:
    assert text_of_response(value) == text


# --- what a hook reads --------------------------------------------------------------------------------------------

CWD = Path("/home/me/project")


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("default", "default"),
        ("accept-edits", "acceptEdits"),
        ("plan", "plan"),
        ("auto", "auto"),
        ("deny", "dontAsk"),
        ("yolo", "bypassPermissions"),
    ],
)
def test_modes_are_told_in_the_words_of_others(mode: Any, told: str) -> None:
    assert common(Now("s", "/j", CWD, mode), "Stop") == {
        "session_id": "s",
        "transcript_path": "/j",
        "cwd": str(CWD),
        "hook_event_name": "Stop",
        "permission_mode": told,
    }


@pytest.mark.parametrize(
    ("name", "given", "tool", "read"),
    [
        ("edit", {"file_path": "a.py"}, "Edit", {"file_path": "/home/me/project/a.py"}),
        ("read", {"file_path": "./a.py"}, "Read", {"file_path": "/home/me/project/a.py"}),
        ("read", {"file_path": "/etc/passwd"}, "Read", {"file_path": "/etc/passwd"}),
        ("read", {"file_path": "b/../a.py"}, "Read", {"file_path": "/home/me/project/b/../a.py"}),
        ("grep", {"pattern": "x", "path": "src"}, "Grep", {"pattern": "x", "path": "/home/me/project/src"}),
        ("glob", {"pattern": "*.py"}, "Glob", {"pattern": "*.py"}),
        ("bash", {"command": "ls", "timeout": 5}, "Bash", {"command": "ls", "timeout": 5}),
        ("mcp__s__t", {"path": "x"}, "mcp__s__t", {"path": "x"}),
        ("write", {"file_path": 7}, "Write", {"file_path": 7}),
    ],
)
def test_tools_and_paths_are_told_as_scripts_expect_them(
    name: str, given: dict[str, Any], tool: str, read: dict[str, Any]
) -> None:
    told = of_call(ToolCall(id="c", name=name, input=given), CWD)
    assert told == {"tool_name": tool, "native_tool_name": name, "tool_input": read, "tool_use_id": "c"}


@pytest.mark.parametrize(
    ("output", "stdout"),
    [
        ("fine\n[exit code 0]", "fine"),
        ("(no output)\n[exit code 1]", ""),
        ("a\n\nb\n[ended by SIGKILL]", "a\n\nb"),
        ("a\n[ended by signal 99]", "a"),
        ("a\n[timed out after 100 ms and was ended]", "a"),
        ('a\n[exit code 0]\n\n<hook-context event="PreToolUse">\nmind it\n</hook-context>', "a"),
        ("[exit code 0]\n[exit code 2]", "[exit code 0]"),
        ("a\n[exit code 0]\nb\n[exit code 0]", "a\n[exit code 0]\nb"),
        ("a\n[exit code 1]\n[the sandbox kept it from the network]", "a"),
        ("cut off", "cut off"),
    ],
)
def test_stdout_is_what_a_command_printed_and_output_all_that_is_told_of_it(output: str, stdout: str) -> None:
    told = response(ToolCall(id="c", name="bash", input={"command": "x"}), output, is_error=False, cwd=CWD)
    assert (told["output"], told["stdout"]) == (output, stdout)


def test_suggested_rules_are_told_as_what_would_be_added() -> None:
    call = ToolCall(id="c", name="bash", input={"command": "git status"})
    question = Ask("tool", call, "0" * 64, ("why",), ("Bash(git status:*)", "Bash"))
    assert of_question(question, CWD)["permission_suggestions"] == [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "git status:*"}],
            "behavior": "allow",
            "destination": "localSettings",
        },
        {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "localSettings"},
    ]


# --- settings -----------------------------------------------------------------------------------------------------


def one(event: str, handler: object, **group: object) -> dict[str, Any]:
    return {"hooks": {event: [{**group, "hooks": [handler]}]}}


COMMAND = {"type": "command", "command": "./check.sh"}


def test_a_command_is_read_whole() -> None:
    written = {**COMMAND, "args": ["-x"], "timeout": 5, "async": True, "statusMessage": "…", "if": "Bash(git *)"}
    file = read_hooks(one("PreToolUse", written, matcher="Bash"), MINE)
    [handler] = file.handlers
    assert file.problems == ()
    assert handler.action == CommandAction("./check.sh", ("-x",))
    assert (handler.timeout_s, handler.is_async, handler.condition) == (5.0, True, "Bash(git *)")
    assert str(handler) == "PreToolUse[0].hooks[0] in settings.toml (./check.sh -x)"


def test_an_address_is_read_whole() -> None:
    url = "https://hooks.example/run?key=secret"
    written = {"type": "http", "url": url, "headers": {"X-Key": "$KEY"}, "allowedEnvVars": ["KEY"]}
    [handler] = read_hooks(one("Stop", written), MINE).handlers
    assert handler.action == HttpAction(url, (("X-Key", "$KEY"),), frozenset({"KEY"}))
    assert str(handler) == "Stop[0].hooks[0] in settings.toml (hooks.example)"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"hooks": []}, "hooks: must be a table of events. They are left out."),
        ({"hooks": {"PreToolUsed": []}}, "hooks.PreToolUsed: is no event; did you mean PreToolUse? It is left out."),
        ({"hooks": {"Stop": {}}}, "hooks.Stop: must be a list of groups. It is left out."),
        ({"hooks": {"Stop": "x"}}, "hooks.Stop: must be a list of groups. It is left out."),
        ({"hooks": {"Stop": [7]}}, "hooks.Stop[0]: must be a table with a list `hooks`. It is left out."),
        ({"hooks": {"Stop": [COMMAND]}}, "hooks.Stop[0]: must be a table with a list `hooks`. It is left out."),
        (one("Stop", 7), "hooks.Stop[0].hooks[0]: must be a table with a `type`. It is left out."),
        (
            one("Stop", {}),
            "hooks.Stop[0].hooks[0]: `type` must be `command`, `http`, `prompt` or `mcp_tool`. It is left out.",
        ),
        (
            one("Stop", {"type": "agent", "prompt": "?"}),
            "hooks.Stop[0].hooks[0]: handlers of type `agent` are not supported yet. It is left out.",
        ),
        (
            one("SessionEnd", {"type": "prompt", "prompt": "?"}),
            "hooks.SessionEnd[0].hooks[0]: handlers of type `prompt` work where a no means something. It is left out.",
        ),
        (one("Stop", {"type": "prompt"}), "hooks.Stop[0].hooks[0]: `prompt` is missing. It is left out."),
        (
            one("Stop", {"type": "mcp_tool", "server": "s"}),
            "hooks.Stop[0].hooks[0]: `tool` is missing. It is left out.",
        ),
        (
            one("Stop", {"type": "mcp_tool", "server": "s", "tool": "t", "input": []}),
            "hooks.Stop[0].hooks[0]: `input` must be a table. It is left out.",
        ),
        (one("Stop", {"type": "command"}), "hooks.Stop[0].hooks[0]: `command` is missing. It is left out."),
        (
            one("Stop", {**COMMAND, "shell": "powershell"}),
            "hooks.Stop[0].hooks[0]: `shell` can only be `bash` here. It is left out.",
        ),
        (
            one("Stop", {**COMMAND, "args": "x"}),
            "hooks.Stop[0].hooks[0]: `args` must be a list of texts. It is left out.",
        ),
        (
            one("Stop", {**COMMAND, "timeout": True}),
            "hooks.Stop[0].hooks[0]: `timeout` must be a number of seconds above 0, at most a day. It is left out.",
        ),
        (
            one("Stop", {**COMMAND, "if": "Bash"}),
            "hooks.Stop[0].hooks[0]: `if` works at the events of tools only. It is left out.",
        ),
        (
            one("Stop", {"type": "http", "url": "ftp://x"}),
            "hooks.Stop[0].hooks[0]: `url` must be an http or https address. It is left out.",
        ),
        (
            one("PreToolUse", COMMAND, matcher=7),
            "hooks.PreToolUse[0].hooks[0]: the matcher must be a text. It is left out.",
        ),
    ],
)
def test_what_is_broken_is_named_and_left_out(settings: dict[str, Any], problem: str) -> None:
    file = read_hooks(settings, MINE)
    assert file.handlers == ()
    assert list(map(str, file.problems)) == [f"settings.toml: {problem}"]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({**COMMAND, "timeot": 5}, "`timeot` is not known; did you mean `timeout`? It has no effect."),
        ({**COMMAND, "once": True}, "`once` has no effect here: it counts in the head of a skill."),
        (
            {**COMMAND, "asyncRewake": True},
            "`asyncRewake` wakes nobody here: what it says with exit code 2 is told with the next prompt.",
        ),
        ({**COMMAND, "fail_closed": True}, "`fail_closed` has no effect here: nothing is let through at this event."),
    ],
)
def test_what_has_no_effect_is_named_and_the_rest_works(written: dict[str, Any], problem: str) -> None:
    file = read_hooks(one("Stop", written), MINE)
    assert len(file.handlers) == 1
    assert [said.text for said in file.problems] == [problem]


@pytest.mark.parametrize(
    ("written", "matcher"),
    [({"type": "comand", "fail_closed": True}, "Bash"), ({**COMMAND, "fail_closed": True}, "(")],
)
def test_a_broken_handler_that_must_not_fail_open_is_kept_as_one_that_says_no(
    written: dict[str, Any], matcher: str
) -> None:
    file = read_hooks(one("PreToolUse", written, matcher=matcher), MINE)
    [handler] = file.handlers
    assert isinstance(handler.action, BrokenAction)
    assert handler.is_fail_closed
    [problem] = file.problems
    assert problem.text.endswith("It is kept as one that says no, because of `fail_closed`.")


def test_a_broken_one_leaves_its_neighbours_alone() -> None:
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "nothing"}, COMMAND]}, 7, {"hooks": [COMMAND]}], "Stopp": []}}
    file = read_hooks(settings, MINE)
    assert [handler.place for handler in file.handlers] == ["Stop[0].hooks[1]", "Stop[2].hooks[0]"]
    assert len(file.problems) == 3


def test_a_repository_turns_off_its_own_hooks_alone() -> None:
    mine = read_hooks(one("Stop", COMMAND), MINE)
    off = {"disableAllHooks": True}
    theirs = read_hooks(one("Stop", {**COMMAND, "command": "x"}) | off, SHARED)
    assert handlers_of([mine, theirs]) == mine.handlers
    assert handlers_of([mine, HookFile(MINE, is_off=True)]) == ()


def test_an_approval_is_pinned_to_all_that_is_written() -> None:
    base = one("PreToolUse", COMMAND, matcher="Bash")
    others = [
        one("PostToolUse", COMMAND, matcher="Bash"),
        one("PreToolUse", COMMAND, matcher="Bash|Edit"),
        one("PreToolUse", {**COMMAND, "command": "./check.sh "}, matcher="Bash"),
        one("PreToolUse", {**COMMAND, "timeout": 5}, matcher="Bash"),
    ]
    digests = {read_hooks(settings, SHARED).handlers[0].sha256 for settings in (base, *others)}
    assert len(digests) == 5
    reordered = one("PreToolUse", dict(reversed(COMMAND.items())), matcher="Bash")
    assert read_hooks(reordered, MINE).handlers[0].sha256 == read_hooks(base, SHARED).handlers[0].sha256
