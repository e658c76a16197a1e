"""Rules as texts and values: what is read, what is held widely, what each form covers, what `always` offers."""

import tomllib
from pathlib import Path

import pytest

from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions.commands import Match
from agentcore.permissions.facts import facts_about
from agentcore.permissions.matching import Subject, is_allowed, is_removed, strongest
from agentcore.permissions.rulebook import Rulebook, read_rules
from agentcore.permissions.rules import ANY_TOOL, BadRule, Rule, parse_rule, rule_id
from agentcore.permissions.suggestions import suggested_rules
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolSpec
from agentcore.values import Value

HERE = Origin("settings.toml")
SHARED = Origin(".claude/settings.json", Path("/repo"), is_shared=True)


class Fields(Value):
    url: str = ""
    limit: int = 0
    run_in_background: bool = False
    name: str = ""
    subagent_type: str = ""
    model: str = ""


SPECS = {
    spec.name: spec
    for spec in (
        *(ToolSpec(name, "", Fields, read_only=True, paths=("file_path",)) for name in ("read", "grep", "ls")),
        *(ToolSpec(name, "", Fields, edits=True, paths=("file_path",)) for name in ("write", "edit", "multi_edit")),
        *(ToolSpec(name, "", Fields) for name in ("bash", "web_fetch", "web_search", "skill", "task", "deploy")),
        *(ToolSpec(f"mcp__{name}", "", Fields) for name in ("git__push", "git__pull", "git_hub__push", "a__b__c")),
    )
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    home = tmp_path_factory.mktemp("home")
    work = home / "work"
    (work / "src" / "deep").mkdir(parents=True)
    (work / "secrets").mkdir()
    (work / "src" / "link.py").symlink_to(work / "secrets" / "key")
    return Workspace(cwd=work, roots=(home,), home=home)


def subject(project: Workspace, tool: str, **input: object) -> Subject:
    call = ToolCall.model_validate({"id": "c", "name": tool, "input": input})
    return Subject(call, SPECS[tool], facts_about(call, SPECS[tool], project))


# --- texts ---

READ = {
    "Bash": Rule("bash", None, HERE),
    "bash": Rule("bash", None, HERE),
    " BASH ": Rule("bash", None, HERE),
    "Bash(*)": Rule("bash", None, HERE),
    "Bash(git status:*)": Rule("bash", "git status:*", HERE),
    "Bash(echo ')' ()": Rule("bash", "echo ')' (", HERE),
    "Bash(a\nb)": Rule("bash", "a\nb", HERE),
    "web_fetch(domain:A.Example.)": Rule("web_fetch", "domain:a.example", HERE),
    "WebFetch(domain:*.BÜCHER.example.)": Rule("web_fetch", "domain:*.xn--bcher-kva.example", HERE),
    "WebFetch(domain:*.example.com)": Rule("web_fetch", "domain:*.example.com", HERE),
    "WebFetch(domain:*)": Rule("web_fetch", None, HERE),
    "MultiEdit(src/**)": Rule("multi_edit", "src/**", HERE),
    "LS": Rule("ls", None, HERE),
    "Agent(explore)": Rule("task", "explore", HERE),
    "Task(explore)": Rule("task", "explore", HERE),
    "Skill(/deploy:*)": Rule("skill", "/deploy:*", HERE),
    "Skill(args:not now)": Rule("skill", "args:not now", HERE),
    "AskUserQuestion": Rule("ask_user", None, HERE),
    "NotebookEdit": Rule("edit", None, HERE),
    "KillShell": Rule("task_stop", None, HERE),
    "mcp__git-hub__Push.all": Rule("mcp__git-hub__push.all", None, HERE),
    "mcp__git__*": Rule("mcp__git__*", None, HERE),
    "deploy": Rule("deploy", None, HERE),
}


@pytest.mark.parametrize(("text", "rule"), READ.items())
def test_a_rule_is_read_in_either_spelling_and_written_so_that_it_is_read_again(text: str, rule: Rule) -> None:
    assert parse_rule(text, HERE) == rule
    assert parse_rule(str(rule), HERE) == rule


NO_RULES = [
    "",
    "  ",
    "Bash(",
    "(rm)",
    "Bash)",
    "1x",
    "Bash(a) b",
    "Bash()",
    "Bash( )",
    "Bash(a\0b)",
    "Bash(" + "x" * 20_000 + ")",
]
NO_RULES += [
    "WebFetch(example.com)",
    "WebFetch(domain:https://x.example/y)",
    "WebFetch(domain:)",
    "WebFetch(domain:ü..example)",
    "Read(!x)",
    "Edit(#x)",
    "Read(a\nb)",
    "Skill(deploy now)",
    "Skill(deploy, test)",
    "Skill(:*)",
    "Skill(/)",
    "Agent(a (b))",
]


@pytest.mark.parametrize("text", NO_RULES)
def test_what_is_no_rule_says_why(text: str) -> None:
    with pytest.raises(BadRule, match=r"\w+ \w+ \w+"):
        parse_rule(text)


def test_the_name_of_a_standing_rule_is_of_what_it_is_and_where_it_stands() -> None:
    rule = parse_rule("Bash(ls)", HERE)
    names = {
        rule_id("allow", rule),
        rule_id("deny", rule),
        rule_id("allow", parse_rule("Bash(pwd)", HERE)),
        rule_id("allow", parse_rule("Bash(ls)", SHARED)),
        rule_id("allow", rule, "session-1"),
    }
    assert len(names) == 5
    assert rule_id("allow", rule) == rule_id("allow", parse_rule(" bash(ls) ", HERE)) == "7e86a51859d48390"


# --- lists of a settings file ---


def test_lists_are_read_and_nothing_is_said_about_what_is_right() -> None:
    lists = {"allow": ["Bash(ls)", "mcp__git__*"], "ask": ["Bash(limit:5)"], "deny": ["mcp__*", "*", "Read(.env)"]}
    book, notices = read_rules(lists, HERE)
    assert [str(rule) for rule in (*book.allow, *book.ask, *book.deny)] == [
        text for texts in lists.values() for text in texts
    ]
    assert notices == ()


def test_an_allow_rule_may_end() -> None:
    entry = {"rule": "bash(ls)", "expires_at": tomllib.loads("at = 2027-01-15T09:00:00+01:00")["at"]}
    book, notices = read_rules({"allow": [entry, {"rule": "Read", "expires_at": 5}]}, HERE)
    assert book.allow == (
        Rule("bash", "ls", HERE, expires_at=1_800_000_000.0),
        Rule("read", None, HERE, expires_at=5.0),
    )
    assert notices == ()


BROKEN = [
    # effect, entry, what holds in its place
    ("deny", "Bash(", Rule("bash", None, HERE, broken="Bash(")),
    ("deny", "read()", Rule("read", None, HERE, broken="read()")),
    ("deny", "mcp__git__push(", Rule("mcp__git__push", None, HERE, broken="mcp__git__push(")),
    ("deny", "Skill(deploy now)", Rule("skill", None, HERE, broken="Skill(deploy now)")),
    ("deny", "(rm)", Rule(ANY_TOOL, None, HERE, broken="(rm)")),
    ("deny", "Nonsense(", Rule(ANY_TOOL, None, HERE, broken="Nonsense(")),
    ("deny", 5, Rule(ANY_TOOL, None, HERE, broken="5")),
    ("deny", {"a": 1}, Rule(ANY_TOOL, None, HERE, broken="{'a': 1}")),
    ("ask", "Bash(", Rule("bash", None, HERE, broken="Bash(")),
    ("ask", "", Rule(ANY_TOOL, None, HERE, broken="")),
    ("allow", "Bash(", None),
    ("allow", 5, None),
    ("allow", {"rule": "Bash", "expires_at": "soon"}, None),
    ("allow", {"rule": "Bash", "expires_at": True}, None),
    ("allow", {"rule": "Bash", "expires_at": tomllib.loads("at = 2027-01-15T08:00:00")["at"]}, None),
    ("allow", {"rule": "Bash"}, None),
    ("allow", {"rule": "Bash", "expires": 5, "expires_at": 5}, None),
    ("allow", {"rule": 5, "expires_at": 5}, None),
    ("deny", {"rule": "Bash", "expires_at": 5}, Rule(ANY_TOOL, None, HERE, broken="{'rule': 'Bash', 'expires_at': 5}")),
    ("allow", "*", None),
    ("allow", "mcp__*", None),
    ("allow", "mcp__git*", None),
    ("allow", "Ba*", None),
    ("allow", "web_search(rust)", None),
    ("allow", "WebFetch(url:http*)", None),
    ("allow", "deploy(target:test)", None),
]


@pytest.mark.parametrize(("effect", "entry", "held"), BROKEN)
def test_what_cannot_be_read_is_told_with_its_file_and_never_widens(
    effect: str, entry: object, held: Rule | None
) -> None:
    book, (notice,) = read_rules({effect: [entry, "Bash(ls)"]}, HERE)
    good = Rule("bash", "ls", HERE)
    assert book.of(effect) == ((good,) if held is None else (held, good))  # type: ignore[arg-type] # a test's table
    assert "settings.toml" in notice
    assert str(entry)[:20] in notice


@pytest.mark.parametrize("lists", ["Bash", 5, {"a": 1}, None])
def test_a_list_that_is_none_forbids_what_it_may_mean_or_allows_nothing(lists: object) -> None:
    denied, (notice,) = read_rules({"deny": lists}, HERE)
    assert [rule.tool for rule in denied.deny] == ["bash" if lists == "Bash" else ANY_TOOL]
    assert "settings.toml" in notice
    assert read_rules({"allow": lists}, HERE)[0] == Rulebook()


def test_a_repository_can_forbid_and_ask_and_not_allow() -> None:
    book, (notice,) = read_rules({"allow": ["Bash"], "ask": ["Edit"], "deny": ["Read(.env)"]}, SHARED)
    assert book == Rulebook(ask=(Rule("edit", None, SHARED),), deny=(Rule("read", ".env", SHARED),))
    assert ".claude/settings.json" in notice


def test_a_mistyped_tool_is_told_and_kept() -> None:
    book, (notice,) = read_rules({"deny": ["Bsah(rm *)", "deploy", "Frobnicate"]}, HERE)
    assert len(book.deny) == 3
    assert "Bash" in notice


# --- what a rule covers ---

MET = [
    # rule, tool, input, whether deny and ask meet it, whether allow means it
    ("Bash", "bash", {"command": "x"}, True, True),
    ("Bash(ls *)", "bash", {"command": "ls -l"}, True, True),
    ("Bash(ls *)", "bash", {"command": "lsof"}, False, False),
    ("Bash(run_in_background:true)", "bash", {"command": "x", "run_in_background": True}, True, False),
    ("Bash(run_in_background:true)", "bash", {"command": "x", "run_in_background": False}, False, False),
    ("Bash(run_in_background:true)", "bash", {"command": "x"}, False, False),
    ("Read", "read", {"file_path": "a"}, True, True),
    ("Read", "grep", {"file_path": "a"}, True, True),
    ("Read", "edit", {"file_path": "a"}, True, False),
    ("Read", "bash", {"command": "cat a"}, True, False),
    ("Bash(timeout:*)", "bash", {"command": "make"}, False, False),
    ("Bash(timeout:*)", "bash", {"command": "timeout 5 make"}, True, False),
    ("Bash(limit:*)", "bash", {"command": "make", "limit": 9}, False, False),
    ("Bash(limit:*)", "bash", {"command": "limit x"}, True, True),
    ("Bash(limit:9)", "bash", {"command": "make", "limit": 9}, True, False),
    ("Bash(limit: * )", "bash", {"command": "make", "limit": 9}, False, False),
    ("Grep", "read", {"file_path": "a"}, False, False),
    ("Edit", "write", {"file_path": "a"}, True, True),
    ("Edit", "multi_edit", {"file_path": "a"}, True, True),
    ("Edit", "read", {"file_path": "a"}, False, False),
    ("Write", "edit", {"file_path": "a"}, False, False),
    ("Read(limit:5)", "read", {"file_path": "a", "limit": 5}, True, False),
    ("Read(limit:*)", "read", {"file_path": "a", "limit": 7}, True, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://example.com/x"}, True, True),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://EXAMPLE.com:8443/x"}, True, True),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://a.example.com/x"}, True, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://evilexample.com/"}, False, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://example.com.evil.org/"}, False, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://example.com@evil.org/"}, True, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://evil.org/?example.com"}, False, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "https://evil.org\\@example.com/"}, True, False),
    ("WebFetch(domain:example.com)", "web_fetch", {"url": "http://[broken"}, True, False),
    ("WebFetch(domain:example.com)", "web_fetch", {}, True, False),
    ("WebFetch(domain:*.example.com)", "web_fetch", {"url": "https://a.b.example.com/"}, True, True),
    ("WebFetch(domain:*.example.com)", "web_fetch", {"url": "https://example.com/"}, True, False),
    ("WebFetch(domain:bücher.example)", "web_fetch", {"url": "https://bücher.example/"}, True, True),
    ("WebFetch(domain:bücher.example)", "web_fetch", {"url": "https://xn--bcher-kva.example/"}, True, True),
    ("WebFetch(domain:*.bücher.example)", "web_fetch", {"url": "https://www.bücher.example/"}, True, True),
    ("WebFetch(domain:bücher.example)", "web_fetch", {"url": "https://bucher.example/"}, False, False),
    ("WebFetch(domain:xn--bcher-kva.example)", "web_fetch", {"url": "https://bücher.example/"}, True, True),
    ("WebFetch(url:*://evil.org*)", "web_fetch", {"url": "http://evil.org/x"}, True, False),
    ("WebFetch(url:*://evil.org*)", "web_fetch", {"url": "HTTP://EVIL.org:80/x"}, True, False),
    ("WebFetch(url:*/admin*)", "web_fetch", {"url": "http://a.example/%61dmin"}, True, False),
    ("WebFetch(url:*/admin*)", "web_fetch", {"url": "http://a.example/other"}, False, False),
    ("Skill(deploy)", "skill", {"name": "Deploy"}, True, True),
    ("Skill(dep*)", "skill", {"name": "deploy"}, True, True),
    ("Skill(deploy)", "skill", {"name": "/deploy"}, True, True),
    ("Skill(deploy)", "skill", {"name": " /Deploy "}, True, True),
    ("Skill(/deploy)", "skill", {"name": "deploy"}, True, True),
    ("Skill(deploy *)", "skill", {"name": "deploy", "args": "now"}, True, True),
    ("Skill(deploy:*)", "skill", {"name": "/deploy"}, True, True),
    ("Skill(/dep* *)", "skill", {"name": "deploy"}, True, True),
    ("Skill(web:build)", "skill", {"name": "web:build"}, True, True),
    ("Skill(web:*)", "skill", {"name": "/web:build"}, True, False),
    ("Skill(web:*)", "skill", {"name": "website"}, False, False),
    ("Skill(name:*)", "skill", {"name": "deploy"}, True, False),
    ("Agent(explore *)", "task", {"subagent_type": "explore"}, True, True),
    ("Skill(dep)", "skill", {"name": "deploy"}, False, False),
    ("Agent(explore)", "task", {"subagent_type": "explore"}, True, True),
    ("Agent(model:opus)", "task", {"subagent_type": "x", "model": "opus"}, True, False),
    ("mcp__git", "mcp__git__push", {}, True, True),
    ("mcp__git", "mcp__git_hub__push", {}, False, False),
    ("mcp__GIT__push", "mcp__git__push", {}, True, True),
    ("mcp__git__push", "mcp__git__pull", {}, False, False),
    ("mcp__git__*", "mcp__git__pull", {}, True, True),
    ("mcp__git__p*l", "mcp__git__pull", {}, True, True),
    ("mcp__git__p*l", "mcp__git__push", {}, False, False),
    ("mcp__a", "mcp__a__b__c", {}, True, True),
    ("mcp__*", "mcp__git__push", {}, True, True),
    ("*", "deploy", {}, True, True),
    ("deploy", "deploy", {}, True, True),
    ("Deploy", "deploy", {}, True, True),
]


@pytest.mark.parametrize(("rule", "tool", "input", "meets", "means"), MET)
def test_what_a_rule_covers(project, rule, tool, input, meets, means) -> None:
    parsed, about = parse_rule(rule), subject(project, tool, **input)
    assert strongest([parsed], about) == ((Match.YES, parsed) if meets else (Match.NO, None))
    assert is_allowed([parsed], about, edits_are_allowed=False) is means


IN_LINES = [
    # command, how a deny or ask rule meets it: `Edit` or `Write` without a pattern, `Read`
    ("echo x > a", Match.YES, Match.YES),
    ("make >> $X", Match.MAYBE, Match.MAYBE),
    ("make > /dev/null 2>&1", Match.NO, Match.NO),
    ("make | tee a", Match.YES, Match.YES),
    ("make | tee /dev/null", Match.NO, Match.NO),
    ("rm -rf src", Match.YES, Match.YES),
    ("rm $X", Match.MAYBE, Match.MAYBE),
    ("find . -exec rm {} +", Match.MAYBE, Match.MAYBE),
    ("find . | xargs rm", Match.MAYBE, Match.MAYBE),
    ("sh -c 'touch a'", Match.YES, Match.YES),
    ("sed -i s/a/b/ a", Match.YES, Match.YES),
    ("sed 'w b' a", Match.YES, Match.YES),
    ("sed -n 5p a", Match.NO, Match.YES),
    ("make | sed s/a/b/", Match.NO, Match.NO),
    ("cat a", Match.NO, Match.YES),
    ("cat < a", Match.NO, Match.YES),
    ("cat *", Match.NO, Match.MAYBE),
    ("cp src/a b", Match.YES, Match.YES),
    ("ps | grep -i x | head -n 5 | cut -d , -f 1", Match.NO, Match.NO),
    ("cut -d , -f 1 7", Match.NO, Match.YES),
    ("grep x a", Match.NO, Match.YES),
    ("grep -f a", Match.NO, Match.YES),
    ("grep -r x", Match.NO, Match.YES),
    ("jq .x a", Match.NO, Match.YES),
    ("make | jq .x", Match.NO, Match.NO),
    ("jq -f a b", Match.NO, Match.YES),
    ("make | awk '{print $1}'", Match.NO, Match.NO),
    ("bash -c 'make all'", Match.NO, Match.NO),
    ("bash -e run", Match.NO, Match.YES),
    ("python -m pytest", Match.NO, Match.NO),
    ("ls -la src", Match.NO, Match.NO),
    ("git status", Match.NO, Match.NO),
    ("cat", Match.NO, Match.NO),
]


@pytest.mark.parametrize(("command", "edits", "reads"), IN_LINES)
def test_a_rule_without_a_pattern_means_the_files_of_shell_lines_too(project, command, edits, reads) -> None:
    (project.cwd / "7").touch()
    about = subject(project, "bash", command=command)
    met = {text: strongest([parse_rule(text)], about)[0] for text in ("Edit", "Write(*)", "MultiEdit", "Read")}
    assert met == {"Edit": edits, "Write(*)": edits, "MultiEdit": edits, "Read": reads}
    assert strongest([parse_rule("Edit(**)")], about)[0] == edits


PATHS = [
    # pattern, path, whether deny and ask meet it, whether allow means it
    ("a.py", "a.py", True, True),
    ("a.py", "src/a.py", True, True),
    ("./a.py", "src/a.py", False, False),
    ("./a.py", "a.py", True, True),
    ("*.py", "src/deep/a.py", True, True),
    ("*.py", "src/a.pyc", False, False),
    ("src/**", "src/deep/a.py", True, True),
    ("src/**", "srcs/a.py", False, False),
    ("src/*", "src/a.py", True, True),
    ("src/", "src/a.py", True, True),
    ("src/**", "src/../a.py", False, False),
    ("src/**", "src/link.py", True, False),
    ("secrets/**", "src/link.py", True, False),
    ("secrets/", "secrets", True, True),
    ("**", "a.py", True, True),
    (".env", ".env", True, True),
    (".env*", "src/.env.local", True, True),
    ("~/work/a.py", "a.py", True, True),
    ("~/other/**", "../other/a", True, True),
    ("~/other/**", "a.py", False, False),
    ("/src/**", "src/a.py", True, True),
    ("/a.py", "src/a.py", False, False),
    ("[z-a]", "a.py", True, False),
    ("a\\*.py", "a*.py", True, True),
    ("a\\*.py", "ab.py", False, False),
]


@pytest.mark.parametrize("tool", ["edit", "read"])
@pytest.mark.parametrize(("pattern", "path", "meets", "means"), PATHS)
def test_path_patterns_are_those_of_gitignore(project, tool, pattern, path, meets, means) -> None:
    rule, about = parse_rule(f"{tool}({pattern})", Origin("x", project.cwd)), subject(project, tool, file_path=path)
    assert (strongest([rule], about)[0] is Match.YES) is meets
    assert is_allowed([rule], about, edits_are_allowed=False) is means


def test_an_absolute_pattern_and_one_of_a_settings_folder(project: Workspace) -> None:
    about = subject(project, "edit", file_path="src/a.py")
    elsewhere, above = Origin("x", Path("/elsewhere")), Origin("x", project.cwd.parent)
    for text, origin, expected in [
        (f"Edit(/{project.cwd}/src/**)", elsewhere, True),
        ("Edit(//etc/**)", elsewhere, False),
        ("Edit(/work/src/**)", above, True),
        ("Edit(/src/**)", above, False),
        ("Edit(src/**)", elsewhere, True),
    ]:
        assert is_allowed([parse_rule(text, origin)], about, edits_are_allowed=False) is expected, text


def test_a_broken_rule_over_everything_spares_what_only_reads(project: Workspace) -> None:
    (rule,) = read_rules({"deny": ["(rm)"]}, HERE)[0].deny
    assert strongest([rule], subject(project, "deploy")) == (Match.YES, rule)
    assert strongest([rule], subject(project, "read", file_path="a")) == (Match.NO, None)


def test_a_tool_that_a_rule_forbids_altogether_is_removed() -> None:
    deny = [parse_rule("Bash"), parse_rule("Read(.env)"), parse_rule("mcp__git")]
    assert {name for name, spec in SPECS.items() if is_removed(deny, spec)} == {
        "bash",
        "mcp__git__push",
        "mcp__git__pull",
    }


# --- what `always` offers ---

OFFERED = [
    ("bash", {"command": "make all"}, ["Bash(make all)", "Bash(make all:*)"]),
    ("bash", {"command": "ls -l | wc"}, ["Bash(ls -l | wc)"]),
    ("bash", {"command": "git commit -m 'x'"}, ["Bash(git commit -m 'x')", "Bash(git commit:*)"]),
    ("bash", {"command": "cd src && git push"}, ["Bash(cd src && git push)", "Bash(git push)", "Bash(git push:*)"]),
    (
        "bash",
        {"command": "timeout 9 cargo test"},
        ["Bash(timeout 9 cargo test)", "Bash(cargo test)", "Bash(cargo test:*)"],
    ),
    ("bash", {"command": "npm run build -- -x"}, ["Bash(npm run build -- -x)", "Bash(npm run build:*)"]),
    ("bash", {"command": "npm exec evil"}, ["Bash(npm exec evil)"]),
    ("bash", {"command": "git -c a=b log"}, ["Bash(git -c a=b log)"]),
    ("bash", {"command": "pytest -q"}, ["Bash(pytest -q)", "Bash(pytest:*)"]),
    ("bash", {"command": "python x.py"}, ["Bash(python x.py)"]),
    ("bash", {"command": "git config user.name me"}, ["Bash(git config user.name me)"]),
    ("bash", {"command": "git -C web fetch"}, ["Bash(git -C web fetch)"]),
    ("bash", {"command": "kubectl exec pod -- ls"}, ["Bash(kubectl exec pod -- ls)"]),
    ("bash", {"command": "printf x"}, ["Bash(printf x)"]),
    ("bash", {"command": "export A=1"}, ["Bash(export A=1)"]),
    ("bash", {"command": "rm -rf build"}, ["Bash(rm -rf build)"]),
    ("bash", {"command": "tmux new x"}, ["Bash(tmux new x)"]),
    ("bash", {"command": "setpriv ls"}, ["Bash(setpriv ls)"]),
    ("bash", {"command": "sqlite3 a.db"}, ["Bash(sqlite3 a.db)"]),
    ("bash", {"command": "shutdown now"}, ["Bash(shutdown now)"]),
    ("bash", {"command": "pipx run x"}, ["Bash(pipx run x)"]),
    ("bash", {"command": "unheard-of x"}, ["Bash(unheard-of x)"]),
    ("bash", {"command": "curl x.example"}, ["Bash(curl x.example)"]),
    ("bash", {"command": "sh -c 'make'"}, ["Bash(sh -c 'make')"]),
    ("bash", {"command": 'sh -c "$X"'}, []),
    ("bash", {"command": "a; b"}, ["Bash(a; b)"]),
    ("bash", {"command": "echo \\* *"}, ["Bash(echo \\\\\\* \\*)", "Bash(echo:*)"]),
    ("bash", {"command": "echo x > a.txt"}, ["Bash(echo x > a.txt)"]),
    ("write", {"file_path": "src/a.py"}, ["Write(./src/a.py)", "Edit(./src/**)", "Edit"]),
    ("edit", {"file_path": "src/[a]*.py"}, ["Edit(./src/\\[a\\]\\*.py)", "Edit(./src/**)", "Edit"]),
    ("web_fetch", {"url": "https://docs.example.com/a?b"}, ["WebFetch(domain:docs.example.com)"]),
    ("web_search", {}, ["WebSearch"]),
    ("skill", {"name": "deploy"}, ["Skill(deploy)", "Skill"]),
    ("skill", {"name": "/deploy"}, ["Skill(deploy)", "Skill"]),
    ("skill", {"name": "de*"}, ["Skill"]),
    ("mcp__git__push", {}, ["mcp__git__push"]),
]


@pytest.mark.parametrize(("tool", "input", "expected"), OFFERED)
def test_the_narrowest_rule_is_offered_first_and_each_settles_the_call(project, tool, input, expected) -> None:
    about = subject(project, tool, **input)
    rules = suggested_rules(about.call, about.spec, about.facts)
    assert [str(rule) for rule in rules] == expected
    for rule in rules:
        assert is_allowed([parse_rule(str(rule))], about, edits_are_allowed=False)


@pytest.mark.parametrize(
    "command", ["git status x", "echo ')' ('", "a\nb", "x" * 5000, "make 'Bash(rm)'", "make \\* '*' \\\\"]
)
def test_the_first_rule_allows_that_line_and_no_other(project: Workspace, command: str) -> None:
    about = subject(project, "bash", command=command)
    for rule in suggested_rules(about.call, about.spec, about.facts)[:1]:
        for other in (f"{command}; rm -rf x", f"env {command}", f"{command}x", command[:-1], command.replace("*", "b")):
            if other.strip() != command:
                assert not is_allowed([rule], subject(project, "bash", command=other), edits_are_allowed=False), other
