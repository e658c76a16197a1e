"""The decision order as a table: mode, call, rules and hooks to allow, deny or ask."""

from pathlib import Path

import pytest

from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions.decision import Outlook, Stance, judge_call
from agentcore.permissions.facts import facts_about
from agentcore.permissions.rulebook import read_rules
from agentcore.permissions.workspace import Workspace
from agentcore.ports.permission import UNHOOKED, HookSays
from agentcore.ports.tools import ToolSpec
from agentcore.values import Value

ALLOW, DENY, ASK = Outlook.ALLOW, Outlook.DENY, Outlook.ASK
MODES = ("default", "accept-edits", "plan", "auto", "deny", "yolo")


class Anything(Value):
    url: str = ""
    count: int = 0
    run_in_background: bool = False


SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec("read", "", Anything, read_only=True, paths=("file_path",)),
        ToolSpec("edit", "", Anything, edits=True, paths=("file_path",)),
        ToolSpec("write", "", Anything, edits=True, paths=("file_path",)),
        ToolSpec("bash", "", Anything),
        ToolSpec("web_fetch", "", Anything, read_only=True),
        ToolSpec("exit_plan_mode", "", Anything, read_only=True, asks="plan"),
        ToolSpec("skill", "", Anything),
        ToolSpec("mcp__files__get", "", Anything),
        ToolSpec("mcp__files__look", "", Anything, read_only=True),
    )
}

READ = ("read", {"file_path": "src/a.py"})
EDIT = ("edit", {"file_path": "src/a.py"})
GIT_HOOK = ("edit", {"file_path": ".git/hooks/pre-commit"})
OUTSIDE_READ = ("read", {"file_path": "/etc/passwd"})
OUTSIDE_EDIT = ("edit", {"file_path": "../x"})
LINK = ("edit", {"file_path": "out/x"})
KEY = ("read", {"file_path": "keys/id"})
MAKE = ("bash", {"command": "make all"})
UNSANDBOXED = ("bash", {"command": "make all", "sandbox": False})
LS = ("bash", {"command": "ls src"})
WRITING = ("bash", {"command": "make > a"})
SHOWING = ("bash", {"command": "cat src/a.py"})
LOOKS = ["git status", "cat src/a.py | head", "ls; pwd && git log -3", "ls src 2>/dev/null", "[ -d src ] && ls src"]
LOOKS_NOT = ["ls > a", "ls | tee a", "echo hi", "cat ../x", "ls $(make)", "cat < src/a.py", "X=1; ls", "f() { ls; }; f"]
LS_PIPED = ("bash", {"command": "ls src | wc"})
REMOVE_ROOT = ("bash", {"command": "rm -rf /"})
UNREADABLE = ("bash", {"command": "make 'all"})
INTO_HOOK = ("bash", {"command": "make > .git/hooks/x"})
OUT_OF_ROOT = ("bash", {"command": "make > /tmp/x"})
ON_ANY = ("bash", {"command": "$X all"})
FETCH = ("web_fetch", {"url": "https://docs.example.com/x"})
PLAN = ("exit_plan_mode", {"plan": "1."})
MCP = ("mcp__files__get", {})
MCP_READ = ("mcp__files__look", {})

HOOK_DENIES, HOOK_ASKS = HookSays("deny", "no"), HookSays("ask", "look")
HOOK_ALLOWS, HOOK_DEFERS = HookSays("allow", "fine"), HookSays("defer", "later")
M, E = ["Bash(make *)"], ["Edit"]


def row(mode, call, expected, *, allow=(), ask=(), deny=(), says=UNHOOKED, sandbox=False):  # the columns of the table
    rules = {"allow": list(allow), "ask": list(ask), "deny": list(deny)}
    return pytest.param(mode, call, rules, says, sandbox, expected, id=f"{mode}-{call[0]}-{expected.name}")


def in_modes(call, *expected, **rest):
    """One row for each mode, in the order of `MODES`."""
    return [row(mode, call, outlook, **rest) for mode, outlook in zip(MODES, expected, strict=True)]


TABLE = [
    # 1. places: outside, through a link, credentials; whatever the mode, the rules and the hooks say
    *in_modes(OUTSIDE_READ, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Read"]),
    *in_modes(OUTSIDE_EDIT, DENY, DENY, DENY, DENY, DENY, DENY, allow=E, says=HOOK_ALLOWS),
    *in_modes(LINK, DENY, DENY, DENY, DENY, DENY, DENY, allow=E),
    *in_modes(KEY, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Read"]),
    *in_modes(OUT_OF_ROOT, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Bash", "Edit"]),
    # 1. protected places and critical removals ask, in yolo too
    *in_modes(GIT_HOOK, ASK, ASK, DENY, ASK, DENY, ASK, allow=E, says=HOOK_ALLOWS),
    *in_modes(INTO_HOOK, ASK, ASK, DENY, ASK, DENY, ASK, allow=["Bash", "Edit"], says=HOOK_ALLOWS, sandbox=True),
    *in_modes(REMOVE_ROOT, ASK, ASK, DENY, ASK, DENY, ASK, allow=["Bash"], says=HOOK_ALLOWS, sandbox=True),
    # 2. deny rules win over everything below
    *in_modes(MAKE, DENY, DENY, DENY, DENY, DENY, DENY, deny=M, allow=M, ask=M, says=HOOK_ALLOWS, sandbox=True),
    *in_modes(READ, DENY, DENY, DENY, DENY, DENY, DENY, deny=["Read(src/**)"]),
    *in_modes(EDIT, DENY, DENY, DENY, DENY, DENY, DENY, deny=["Read(src/**)"], allow=E),
    *in_modes(REMOVE_ROOT, DENY, DENY, DENY, DENY, DENY, DENY, deny=["Bash(rm *)"]),
    *in_modes(PLAN, DENY, DENY, DENY, DENY, DENY, DENY, deny=["ExitPlanMode"]),
    # 3. a hook denies
    *in_modes(MAKE, DENY, DENY, DENY, DENY, DENY, DENY, allow=M, says=HOOK_DENIES, sandbox=True),
    *in_modes(READ, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Read"], says=HOOK_DENIES),
    *in_modes(GIT_HOOK, DENY, DENY, DENY, DENY, DENY, DENY, says=HOOK_DENIES),
    # 4. a hook or a rule asks
    *in_modes(MAKE, ASK, ASK, ASK, ASK, DENY, ASK, allow=M, says=HOOK_ASKS, sandbox=True),
    *in_modes(MAKE, ASK, ASK, DENY, ASK, DENY, ASK, allow=M, says=HOOK_ASKS),
    *in_modes(EDIT, ASK, ASK, DENY, ASK, DENY, ASK, allow=E, ask=["Edit"], sandbox=True),
    *in_modes(MCP, ASK, ASK, DENY, ASK, DENY, ASK, allow=["mcp__files"], ask=["mcp__files"]),
    *in_modes(MCP_READ, ASK, ASK, ASK, ASK, DENY, ASK, ask=["mcp__files"]),
    *in_modes(FETCH, ASK, ASK, ASK, ASK, DENY, ASK, ask=["WebFetch"]),
    *in_modes(MAKE, ASK, ASK, DENY, ASK, DENY, ASK, allow=M, says=HOOK_DEFERS),
    *in_modes(MAKE, ASK, ASK, DENY, ASK, DENY, ASK, allow=M, ask=["Bash(make all)"], says=HOOK_ALLOWS),
    *in_modes(READ, ASK, ASK, ASK, ASK, DENY, ASK, ask=["Read(*.py)"]),
    *in_modes(LS, ASK, ASK, ASK, ASK, DENY, ASK, ask=["Bash(ls:*)"]),
    *in_modes(PLAN, ASK, ASK, ASK, ASK, DENY, ASK, says=HOOK_ALLOWS),
    # 2, 4. a rule without a pattern reaches the files of a shell line
    *in_modes(WRITING, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Bash"], deny=["Write"], sandbox=True),
    *in_modes(WRITING, ASK, ASK, DENY, ASK, DENY, ASK, allow=["Bash", "Edit"], ask=["Edit"]),
    *in_modes(SHOWING, DENY, DENY, DENY, DENY, DENY, DENY, allow=["Bash"], deny=["Read"]),
    *in_modes(SHOWING, ASK, ASK, ASK, ASK, DENY, ASK, allow=["Bash"], ask=["Read"]),
    *in_modes(LS, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, deny=["Edit", "Read"]),
    # 4. what nobody can read asks, and what may be forbidden
    *in_modes(UNREADABLE, ASK, ASK, DENY, ASK, DENY, ASK, allow=["Bash"], says=HOOK_ALLOWS),
    *in_modes(ON_ANY, ASK, ASK, DENY, ASK, DENY, ASK, allow=["Bash"], deny=["Bash(rm *)"]),
    *in_modes(ON_ANY, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, allow=["Bash"]),
    # 5. yolo, 6. read-only, 7. plan, 12. ask
    *in_modes(READ, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
    *in_modes(MCP_READ, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
    *in_modes(MAKE, ASK, ASK, DENY, ASK, DENY, ALLOW),
    *in_modes(MCP, ASK, ASK, DENY, ASK, DENY, ALLOW),
    *in_modes(FETCH, ASK, ASK, ASK, ASK, DENY, ALLOW),
    # 8. allow rules and hooks, behind plan
    *in_modes(MAKE, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, allow=M),
    *in_modes(MAKE, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, says=HOOK_ALLOWS),
    *in_modes(EDIT, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, allow=["Edit(src/**)"]),
    *in_modes(MCP, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, allow=["mcp__files"]),
    *in_modes(FETCH, ALLOW, ALLOW, ASK, ALLOW, ALLOW, ALLOW, allow=["WebFetch(domain:docs.example.com)"]),
    # 9. the sandbox, which has the project read-only in plan mode
    *in_modes(MAKE, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, sandbox=True),
    *in_modes(UNSANDBOXED, ASK, ASK, DENY, ASK, DENY, ASK, sandbox=True),
    *in_modes(UNSANDBOXED, ASK, ASK, DENY, ASK, DENY, ASK, sandbox=True, allow=M, says=HOOK_ALLOWS),
    *in_modes(UNSANDBOXED, ALLOW, ALLOW, DENY, ALLOW, ALLOW, ALLOW, allow=M),
    *in_modes(EDIT, ASK, ALLOW, DENY, ASK, DENY, ALLOW, sandbox=True),
    # 10. a command that only shows something
    *in_modes(LS, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
    *in_modes(LS_PIPED, ASK, ASK, ALLOW, ASK, DENY, ALLOW),
    *(row("plan", ("bash", {"command": command}), ALLOW) for command in LOOKS),
    *(row("plan", ("bash", {"command": command}), DENY) for command in LOOKS_NOT),
    # 11. accept-edits
    *in_modes(EDIT, ASK, ALLOW, DENY, ASK, DENY, ALLOW),
    row("accept-edits", ("bash", {"command": "make > build.log"}), ASK),
    row("accept-edits", ("bash", {"command": "make > build.log"}), ALLOW, allow=M),
    row("default", ("bash", {"command": "make > build.log"}), ASK, allow=M),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    top = tmp_path_factory.mktemp("top")
    work = top / "home" / "code" / "work"
    for folder in ("src", ".git/hooks", "keys"):
        (work / folder).mkdir(parents=True)
    (top / "elsewhere").mkdir()
    (work / "out").symlink_to(top / "elsewhere")
    (work / "src/a.py").touch()
    return Workspace(cwd=work, roots=(work,), hidden=(work / "keys",), home=top / "home")


def test_the_table_is_large_enough() -> None:
    assert len(TABLE) >= 80


@pytest.mark.parametrize(("mode", "call", "rules", "says", "sandbox", "expected"), TABLE)
def test_the_first_line_that_applies_decides(project, mode, call, rules, says, sandbox, expected) -> None:
    name, input = call
    tool_call, spec = ToolCall(id="c", name=name, input=input), SPECS[name]
    book, notices = read_rules(rules, Origin("settings.toml"))
    stance = Stance(mode, book, sandbox_allows=sandbox, is_sandboxed=sandbox)
    opinion = judge_call(tool_call, spec, facts_about(tool_call, spec, project), stance, says)
    assert opinion.outlook is expected, opinion
    assert opinion.reason
    assert notices == ()


IN_PLAN = [
    # a command that the sandbox will confine, without `auto_allow`
    (MAKE, {}, ASK),
    (MAKE, {"allow": M}, ALLOW),
    (MAKE, {"ask": M}, ASK),
    (UNREADABLE, {}, ASK),
    (WRITING, {"allow": M}, ASK),
    (UNSANDBOXED, {"allow": M}, DENY),
    (REMOVE_ROOT, {}, DENY),
    (INTO_HOOK, {}, DENY),
    (EDIT, {"allow": E}, DENY),
    (LS, {}, ALLOW),
]


@pytest.mark.parametrize(("call", "rules", "expected"), IN_PLAN)
def test_where_the_sandbox_holds_plan_mode_the_shell_may_be_asked_about(project, call, rules, expected) -> None:
    tool_call, spec = ToolCall(id="c", name=call[0], input=call[1]), SPECS[call[0]]
    stance = Stance("plan", read_rules(rules, Origin("settings.toml"))[0], is_sandboxed=True)
    assert judge_call(tool_call, spec, facts_about(tool_call, spec, project), stance).outlook is expected


@pytest.mark.parametrize(
    ("call", "rules", "is_grantable"),
    [
        (MAKE, {}, True),
        (EDIT, {}, True),
        (GIT_HOOK, {}, False),
        (REMOVE_ROOT, {}, False),
        (UNREADABLE, {}, False),
        (PLAN, {}, False),
        (MAKE, {"ask": ["Bash(make *)"]}, False),
        (ON_ANY, {"deny": ["Bash(rm *)"]}, False),
    ],
)
def test_only_what_a_rule_would_settle_is_grantable(project, call, rules, is_grantable) -> None:
    tool_call, spec = ToolCall(id="c", name=call[0], input=call[1]), SPECS[call[0]]
    stance = Stance("default", read_rules(rules, Origin("settings.toml"))[0])
    opinion = judge_call(tool_call, spec, facts_about(tool_call, spec, project), stance)
    assert (opinion.outlook, opinion.is_grantable) == (ASK, is_grantable)


def test_the_reason_names_the_rule_and_its_file(project: Workspace) -> None:
    call = ToolCall(id="c", name="bash", input={"command": "make all"})
    for effect, verb in (("deny", "forbids"), ("ask", "asks about")):
        book, _ = read_rules({effect: ["Bash(make *)"]}, Origin(".claude/settings.json", Path("/x"), is_shared=True))
        opinion = judge_call(call, SPECS["bash"], facts_about(call, SPECS["bash"], project), Stance("yolo", book))
        assert opinion.reason == f"the rule Bash(make *) (.claude/settings.json) {verb} this call"
