"""The decision order as a table: mode, tool, place and rules to allow, deny or ask."""

import pytest

from agentcore.messages import ToolCall
from agentcore.permissions.decision import Facts, Outlook, Stance, judge_call
from agentcore.permissions.rules import Rule, narrowest_rule, parse_rule
from agentcore.ports import ToolSpec
from agentcore.values import Value

ALLOW, DENY, ASK = Outlook.ALLOW, Outlook.DENY, Outlook.ASK


class Anything(Value):
    pass


READ = ToolSpec("read", "", Anything, read_only=True, paths=("file_path",))
EDIT = ToolSpec("edit", "", Anything, edits=True, paths=("file_path",))
BASH = ToolSpec("bash", "", Anything)
PLAN = ToolSpec("exit_plan_mode", "", Anything, read_only=True, asks="plan")
SPECS = {spec.name: spec for spec in (READ, EDIT, BASH, PLAN)}

INSIDE, OUTSIDE, PROTECTED = Facts(), Facts(outside="outside the project"), Facts(protected=(".git/hooks/x",))
GIT = Rule("bash", "git status")

TABLE = [
    # mode, tool, facts, allow rules, deny rules, expected
    ("default", "read", INSIDE, [], [], ALLOW),
    ("default", "edit", INSIDE, [], [], ASK),
    ("default", "bash", INSIDE, [], [], ASK),
    ("default", "bash", INSIDE, [GIT], [], ALLOW),
    ("default", "bash", INSIDE, [GIT], [GIT], DENY),
    ("default", "bash", INSIDE, [Rule("bash", "git")], [], ASK),
    ("default", "bash", INSIDE, [Rule("bash")], [], ALLOW),
    ("default", "edit", INSIDE, [Rule("bash")], [], ASK),
    ("default", "read", OUTSIDE, [Rule("read")], [], DENY),
    ("default", "edit", PROTECTED, [Rule("edit")], [], ASK),
    ("accept-edits", "edit", INSIDE, [], [], ALLOW),
    ("accept-edits", "edit", OUTSIDE, [], [], DENY),
    ("accept-edits", "edit", PROTECTED, [], [], ASK),
    ("accept-edits", "bash", INSIDE, [], [], ASK),
    ("plan", "read", INSIDE, [], [], ALLOW),
    ("plan", "edit", INSIDE, [Rule("edit")], [], DENY),
    ("plan", "bash", INSIDE, [GIT], [], DENY),
    ("plan", "exit_plan_mode", INSIDE, [], [], ASK),
    ("deny", "read", INSIDE, [], [], ALLOW),
    ("deny", "bash", INSIDE, [], [], DENY),
    ("deny", "bash", INSIDE, [GIT], [], ALLOW),
    ("deny", "edit", PROTECTED, [], [], DENY),
    ("deny", "exit_plan_mode", INSIDE, [], [], DENY),
    ("yolo", "bash", INSIDE, [], [], ALLOW),
    ("yolo", "bash", INSIDE, [], [GIT], DENY),
    ("yolo", "edit", OUTSIDE, [], [], DENY),
    ("yolo", "edit", PROTECTED, [], [], ASK),
    ("yolo", "exit_plan_mode", INSIDE, [], [], ASK),
]


@pytest.mark.parametrize(("mode", "tool", "facts", "allow", "deny", "expected"), TABLE)
def test_the_first_line_that_applies_decides(mode, tool, facts, allow, deny, expected) -> None:
    call = ToolCall(id="c", name=tool, input={"command": "git status"} if tool == "bash" else {"file_path": "a"})
    opinion = judge_call(call, SPECS[tool], facts, Stance(mode, allow, deny))
    assert opinion.outlook is expected, opinion
    assert opinion.reason


COMMANDS = ["git status", "echo ')' (", "a\nb", "x" * 5000, "echo 'Bash(rm)'"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_narrowest_rule_survives_being_written_down_and_matches_nothing_else(command: str) -> None:
    call = ToolCall(id="c", name="bash", input={"command": command})
    rule = parse_rule(str(narrowest_rule(call)))
    assert rule == narrowest_rule(call)
    assert rule.matches(call)
    for other in (f"{command} ", f"{command}; rm -rf /", f"env {command}", command[:-1]):
        assert not rule.matches(ToolCall(id="c", name="bash", input={"command": other}))


@pytest.mark.parametrize("text", ["", "  ", "Bash(", "(rm)", "Bash)", "1x", "Bash(a) b"])
def test_what_is_no_rule_is_none(text: str) -> None:
    assert parse_rule(text) is None


@pytest.mark.parametrize("text", ["Bash", "bash", "BASH"])
def test_both_spellings_name_the_same_tool(text: str) -> None:
    assert parse_rule(text) == Rule("bash")
