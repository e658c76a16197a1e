"""Shell lines that try to get past a rule, and lines that a rule means: the corpus and its counterpart."""

from pathlib import Path

import pytest
import yaml

from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions.decision import Opinion, Outlook, Stance, judge_call
from agentcore.permissions.facts import facts_about
from agentcore.permissions.rulebook import read_rules
from agentcore.permissions.workspace import Workspace
from agentcore.tools.bash import BashTool

CORPUS = yaml.safe_load((Path(__file__).parent / "bypass_corpus.yaml").read_text())
ATTEMPTS = [(group, line) for group in CORPUS for line in group["lines"]]
RULES = Origin("settings.toml")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    home = tmp_path_factory.mktemp("home")
    work = home / "code" / "work"
    for folder in ("src", "build", "scripts", ".git/hooks"):
        (work / folder).mkdir(parents=True)
    for file in ("src/a.py", ".env", "a.txt"):
        (work / file).write_text("x = 1\n")
    (home / ".ssh").mkdir()
    return Workspace(cwd=work, roots=(work,), hidden=(home / ".ssh",), home=home)


def opinion(project: Workspace, command: str, rules: dict[str, list[str]], mode: str = "default") -> Opinion:
    call = ToolCall(id="c", name="bash", input={"command": command})
    book, notices = read_rules(rules, RULES)
    assert notices == ()
    return judge_call(call, BashTool.spec, facts_about(call, BashTool.spec, project), Stance(mode, book))


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(ATTEMPTS) >= 150
    assert len({(str(group), line) for group, line in ATTEMPTS}) == len(ATTEMPTS)


@pytest.mark.parametrize(("group", "line"), ATTEMPTS, ids=[line for _, line in ATTEMPTS])
def test_no_line_gets_past_a_rule_that_does_not_mean_it(project: Workspace, group, line: str) -> None:
    rules = {effect: group[effect] for effect in ("allow", "ask", "deny") if effect in group}
    found = opinion(project, line, rules, "default" if "allow" in group else "yolo")
    assert found.outlook is not Outlook.ALLOW, found


MEANT = [
    ("Bash", "touch x && rm -rf build/tmp | tee y"),
    ("Bash(*)", "anything at all"),
    ("Bash(git *)", "git status"),
    ("Bash(git *)", "git"),
    ("bash(git:*)", "git log --oneline -5"),
    ("Bash(git *)", "git status && git diff"),
    ("Bash(git *)", "git status; git log | git stripspace"),
    ("Bash(git *)", "git add -A\ngit commit -m 'all of it'"),
    ("Bash(git *)", "git log --oneline | head -5"),
    ("Bash(git *)", "git log 2>/dev/null"),
    ("Bash(git *)", "git log > /dev/null 2>&1"),
    ("Bash(git *)", "git fetch &"),
    ("Bash(git *)", "LANG=C git status"),
    ("Bash(git *)", "timeout 30 git fetch"),
    ("Bash(git *)", "timeout -k 5 -s KILL 30s git fetch"),
    ("Bash(git *)", "time git status"),
    ("Bash(git *)", "nice -n 10 git gc"),
    ("Bash(git *)", "nohup git fetch"),
    ("Bash(git *)", "stdbuf -oL git log"),
    ("Bash(git *)", "command git status"),
    ("Bash(git *)", "(git status)"),
    ("Bash(git *)", "{ git status; git log; }"),
    ("Bash(git *)", "if git diff --quiet; then git push; fi"),
    ("Bash(git *)", "for b in main dev; do git log -1 main; done || true"),
    ("Bash(git *)", "[ -d .git ] && git status"),
    ("Bash(git *)", "cd src && git status"),
    ("Bash(git add *)", "cd src && git add -A && git status | head -5"),
    ("Bash(git commit:*)", "git commit -m \"Say what it does; and 'why'\""),
    ("Bash(git commit:*)", "git commit -m \"$(cat <<'EOF'\nKeep it.\n\nIt's (all) $fine.\nEOF\n)\""),
    ("Bash(git commit *)", "git commit --amend --no-edit # as it was"),
    ("Bash(git log *)", "# look back\ngit log -3"),
    ("Bash(git status)", "git status"),
    ("Bash(git status)", "git  status "),
    ("Bash(npm run test:*)", "npm run test -- --watch=false"),
    ("Bash(npm run test:*)", "cd build && npm run test"),
    ("Bash(npm run *)", "CI=1 npm run build"),
    ("Bash(ls*)", "lsof"),
    ("Bash(* --version)", "node_modules/.bin/tsc --version"),
    ("Bash(git * main)", "git checkout main"),
    ("Bash(python -m pytest *)", "python -m pytest -q tests"),
    ("Bash(python scripts/*)", "python scripts/build.py --all"),
    ("Bash(./scripts/*)", "./scripts/build.sh a b"),
    ("Bash(bash scripts/build.sh *)", "bash scripts/build.sh --fast"),
    ("Bash(node scripts/*)", "node scripts/a.js"),
    ("Bash(find *)", "find . -name '*.py' -type f"),
    ("Bash(sed -n *)", "sed -n '1,40p' src/a.py"),
    ("Bash(sed *)", "sed -i 's/old/new/g' src/a.py"),
    ("Bash(sed *)", "sed '/^$/d' src/a.py"),
    ("Bash(tar *)", "tar czf build/a.tgz src"),
    ("Bash(make:*)", "make -j4 all"),
    ("Bash(xargs ls *)", "ls -la"),
    ("Bash(grep *)", "git ls-files | xargs grep -n TODO"),
    ("Bash(echo *)", 'echo "$HOME and ${X:-none}"'),
    ("Bash(sh -c 'make all')", "sh -c 'make all'"),
    ("Bash(find . -name x -delete)", "find . -name x -delete"),
    ("Bash(git status; make)", "git status; make"),
    ("Bash(ls \\*)", "ls *"),
    ("Bash(rm build/*)", "rm build/a.o build/b.o"),
    ("Bash(rm:*)", "rm -rf build/tmp"),
    ("Bash(cargo *)", "RUST_BACKTRACE=1 cargo test \\\n  --workspace"),
    ("Bash(echo *)", "until false; do echo a; done < src/a.py"),
    ("Bash(echo *)", 'echo "\\"; touch x; echo "\\"'),
    ("Bash(echo *)", "echo 'a'\\''; touch x; '"),
    ("Bash(echo *)", "echo $'a\\'; touch x; echo '"),
]


@pytest.mark.parametrize(("rule", "line"), MEANT)
def test_a_rule_allows_what_it_means(project: Workspace, rule: str, line: str) -> None:
    found = opinion(project, line, {"allow": [rule]})
    assert found.outlook is Outlook.ALLOW, found


def test_enough_of_what_people_write_is_allowed() -> None:
    assert len(MEANT) >= 40


WRITES = [
    (["Bash(echo *)", "Edit(build/**)"], "echo x > build/a.txt", Outlook.ALLOW),
    (["Bash(echo *)", "Write(build/**)"], "echo x >> build/a.txt", Outlook.ALLOW),
    (["Bash(echo *)", "Edit"], "cd build && echo x > a.txt", Outlook.ALLOW),
    (["Bash(echo *)"], "echo x > build/a.txt", Outlook.ASK),
    (["Edit(build/**)"], "echo x > build/a.txt", Outlook.ASK),
    (["Bash"], "echo x > build/a.txt", Outlook.ALLOW),
    (["Bash", "Edit"], "echo x > .git/config", Outlook.ASK),
    (["Bash", "Edit"], "echo x > ../other", Outlook.DENY),
    (["Bash", "Edit"], "echo x > ~/.ssh/config", Outlook.DENY),
    (["Bash", "Edit"], "cat $HOME/.ssh/id_rsa", Outlook.DENY),
    (["Bash", "Edit"], "cp a.txt .git/hooks/pre-commit", Outlook.ASK),
]


@pytest.mark.parametrize(("rules", "line", "expected"), WRITES)
def test_a_redirection_is_an_edit(project: Workspace, rules: list[str], line: str, expected: Outlook) -> None:
    assert opinion(project, line, {"allow": rules}).outlook is expected


SHOWN = [
    "ls",
    "ls -la src",
    "pwd",
    "cat src/a.py",
    "head -n 5 src/a.py",
    "git status",
    "git status --short",
    "git log --oneline -5",
    "git diff HEAD~1 -- src",
    "git branch",
    "wc -l src/a.py",
    "grep -n TODO src/a.py",
    "LANG=C ls",
]
ASKED = [
    "ls; pwd",
    "ls | wc",
    "ls > x",
    "cat ../x",
    "cat /etc/passwd",
    "cat ~/x",
    "cat $X",
    "cat src/*",
    "git log --output=x",
    "git log --outp=x",
    "git diff --no-index a b",
    "git diff /etc/passwd x",
    "git -c a=b status",
    "git branch new",
    "git push",
    "date -s x",
    "tail -f src/a.py",
    "grep -rn x .",
    "PATH=x ls",
    "echo hi",
    "ls $(pwd)",
    "cat --help",
    "git remote add x y",
]


@pytest.mark.parametrize(
    ("line", "expected"), [*((line, Outlook.ALLOW) for line in SHOWN), *((line, Outlook.ASK) for line in ASKED)]
)
def test_one_command_that_only_shows_the_project_runs_without_a_question(
    project: Workspace, line: str, expected: Outlook
) -> None:
    assert opinion(project, line, {}).outlook is expected


NOT_MEANT = [
    ("Bash(rm *)", "git rm src/a.py"),
    ("Bash(rm *)", "git commit -m 'rm old files'"),
    ("Bash(rm *)", "docker rm box"),
    ("Bash(rm *)", "find . -name rm"),
    ("Bash(rm *)", "echo rm x"),
    ("Bash(rm *)", "grep 'rm x' src/a.py"),
    ("Bash(rm *)", "npm run rm-build"),
    ("Bash(git push *)", 'git commit -m "$(date)"'),
    ("Bash(curl *)", 'for f in a b; do echo "$f"; done'),
    ("Bash(ls *)", "lsof"),
    ("Read(.env)", "cat src/a.py"),
    ("Read(.env)", "git add .env"),
    ("Edit(src/**)", "cat src/a.py > build/x"),
]


@pytest.mark.parametrize(("rule", "line"), NOT_MEANT)
def test_a_deny_rule_forbids_no_more_than_it_means(project: Workspace, rule: str, line: str) -> None:
    found = opinion(project, line, {"deny": [rule]}, "yolo")
    assert found.outlook is Outlook.ALLOW, found
