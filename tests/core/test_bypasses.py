"""Shell lines that try to get past a rule, and lines that a rule means: the corpus and its counterpart."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions import disk, resolving
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
    (home / ".ssh" / "id_rsa").write_text("KEY\n")
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    subprocess.run(["git", "add", "--all"], cwd=work, check=True)
    return Workspace(cwd=work, roots=(work,), hidden=(home / ".ssh",), home=home)


def opinion(project: Workspace, command: str, rules: dict[str, list[str]], mode: str = "default") -> Opinion:
    call = ToolCall(id="c", name="bash", input={"command": command})
    book, notices = read_rules(rules, RULES)
    assert all("settles nothing by itself" in notice for notice in notices)
    workspace = replace(project, deny=book.deny, ask=book.ask)
    return judge_call(call, BashTool.spec, facts_about(call, BashTool.spec, workspace), Stance(mode, book))


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


SPELLED = [
    # The rule itself spells what runs what it is given, so its user means that: a language, another repository, a
    # container, the variables of his line. The same lines under a rule that does not are in the corpus.
    ("Bash(python:*)", "python -c 'import os; os.system(\"touch x\")'"),
    ("Bash(python3 *)", "python3 evil.py"),
    ("Bash(python3*)", "python3.12 -m http.server"),
    ("Bash(.venv/bin/python *)", ".venv/bin/python -c '1'"),
    ("Bash(node:*)", 'node -e \'require("fs").writeFileSync("x", "")\''),
    ("Bash(perl:*)", "perl -e 'system \"touch x\"'"),
    ("Bash(awk:*)", "git log | awk 'BEGIN { system(\"touch x\") }'"),
    ("Bash(php artisan:*)", "php artisan migrate"),
    ("Bash(git config:*)", "git config --global alias.st '!touch x'"),
    ("Bash(git config*)", "git config user.name me"),
    ("Bash(git -C *)", "git -C ../other log"),
    ("Bash(git lfs:*)", "git lfs pull"),
    ("Bash(git -C:*)", "git -C ../other status --short"),
    ("Bash(kubectl exec:*)", "kubectl exec pod -- sh -c 'touch x'"),
    ("Bash(kubectl exec:*)", "kubectl exec $POD -- ls"),
    ("Bash(npm --prefix web run:*)", "npm --prefix web run build"),
    ("Bash(pnpm -C *)", "pnpm -C web build"),
    ("Bash(export:*)", "export A=1 B='x y'"),
    ("Bash(export:*)", "export PATH=$PATH:/opt/bin && git status"),
    ("Bash(printf:*)", "printf '%s\\n' x"),
    ("Bash(test:*)", "test -f a.txt && git status"),
    ("Bash(less:*)", "less a.txt"),
    ("Bash(man:*)", "man git"),
    ("Bash(history:*)", "history 20"),
    ("Bash(pytest:*)", "pytest -p no:cacheprovider -c pytest.ini -o addopts= tests"),
    ("Bash(psql:*)", "psql -d shop -c 'select 1'"),
    ("Bash(docker exec:*)", "docker exec box sh -c 'touch x'"),
    ("Bash(ssh:*)", "ssh host touch x"),
    ("Bash(npx:*)", "npx touch x"),
    ("Bash(uv run:*)", "uv run touch x"),
    ("Bash(CI=1 npm test:*)", "CI=1 npm test -- -x"),
    ("Bash(NODE_OPTIONS=--max-old-space-size=4096 npm run:*)", "NODE_OPTIONS=--max-old-space-size=4096 npm run build"),
]


@pytest.mark.parametrize(("rule", "line"), SPELLED)
def test_a_rule_that_spells_what_runs_others_means_it(project: Workspace, rule: str, line: str) -> None:
    assert read_rules({"allow": [rule]}, RULES)[1] == ()
    found = opinion(project, line, {"allow": [rule]})
    assert found.outlook is Outlook.ALLOW, found


SETTLE_NOTHING = {
    # by themselves: what they are given is a command line
    "Bash(bash:*)": "bash runs any command line, so name what it runs: `Bash(bash scripts/build.sh *)`",
    "Bash(sh -c *)": "sh runs any command line",
    "Bash(/bin/zsh -lc:*)": "zsh runs any command line",
    "Bash(pwsh *)": "pwsh runs any command line",
    "Bash(source:*)": "source can run other programs, so name what it runs: write the whole command, without `*`.",
    "Bash(env:*)": "env can run",
    "Bash(sudo:*)": "sudo can run",
    "Bash(sudo apt-get *)": "sudo can run",
    "Bash(sudo*)": "sudo can run",
    "Bash(eval *)": "eval can run",
    "Bash(timeout:*)": "timeout is looked through, so write the rule for the command behind it",
    "Bash(timeout 60 npm test:*)": "timeout is looked through",
    "Bash(xargs grep *)": "xargs is looked through",
    "Bash(find . -exec *)": "an argument makes find run other programs or write files",
    "Bash(find . -name x -delete *)": "an argument makes find",
    "Bash(git -c *)": "an argument makes git",
    "Bash(X=1 sudo *)": "sudo can run",
}


@pytest.mark.parametrize(("rule", "why"), SETTLE_NOTHING.items())
def test_a_rule_that_approves_nothing_is_told_with_what_to_write(rule: str, why: str) -> None:
    book, (notice,) = read_rules({"allow": [rule]}, RULES)
    assert [str(one) for one in book.allow] == [rule]
    assert notice.startswith(
        f"The rule {rule!r} of `permissions.allow` in settings.toml settles nothing by itself: {why}"
    )
    assert read_rules({"deny": [rule], "ask": [rule]}, RULES)[1] == ()


@pytest.mark.parametrize("rule", [rule for rule, _ in MEANT if "xargs" not in rule])
def test_nothing_is_said_about_a_rule_that_approves_something(rule: str) -> None:
    assert read_rules({"allow": [rule]}, RULES)[1] == ()


EVERYDAY = {
    # What people write all day, under the rules that they have for it.
    "git *": """git log -p
        git diff HEAD~1 -- src
        git show HEAD:src/a.py
        git commit -am "fix it"
        git commit -mfix
        git commit -F - <<< x
        git commit --fixup HEAD~1
        git add -p
        git checkout -b feature/x
        git checkout -- src/a.py
        git switch -c x
        git push -u origin HEAD
        git push --force-with-lease
        git pull --ff-only origin main
        git fetch --all --prune
        git rebase -i HEAD~3
        git rebase --continue
        git merge --no-ff x
        git merge -X theirs x
        git stash
        git stash push -m "wip" -- src
        git stash show -p
        git reset --hard HEAD~1
        git restore --staged .
        git branch -D x
        git tag -a v1 -m "v1"
        git remote add origin git@github.com:a/b.git
        git clone --depth 1 https://github.com/a/b.git
        git blame -L 1,5 src/a.py
        git rev-parse --abbrev-ref HEAD
        git ls-files -o --exclude-standard
        git cherry-pick -x abc
        git revert HEAD --no-edit
        git clean -fd
        git rm -r --cached build
        git log -S foo --oneline -5
        git log --pretty=format:'%h %an' --since=yesterday
        git log -L 1,5:src/a.py
        git grep -n "std::vector"
        git submodule update --init --recursive
        git bisect start HEAD main
        git config --get user.name
        git --no-pager log -3
        git diff main...$BRANCH
        git archive --format=tar HEAD
        git status --porcelain=v2 -uno""",
    "make *": "make\nmake -j4 V=1 all\nmake -C docs html",
    "curl *": """curl -sS -o /dev/null -w "%{http_code}" https://x.example
        curl -X POST -H "A: b" -d '{"a":1}' https://x.example""",
    "tar *": "tar -xzf a.tgz -C build\ntar xf a.tgz",
    "cat *": 'cat a.txt | head\nfor f in src/*.py; do cat "$f"; done\ncat {a,b}.txt',
    "cp *": "cp -r src build/src",
    "date *": "date +%s\ndate -u",
    "sort *": "sort -k2 -n a.txt",
    "go *": "go test -run X -v ./...\ngo build -o bin/x .",
    "npm *": "npm test\nnpm run build -w web\nnpm --prefix web test",
    "rg *": "rg foo -g '*.py' src",
    "docker *": "docker run --rm -v src:/w x make",
    "gcc *": "gcc -Wall -o build/x x.c",
    "gh *": "gh pr create --title x --body 'a b'",
    "rsync *": "rsync -av src/ build/",
}


@pytest.mark.parametrize(
    ("rule", "line"), [(rule, line.strip()) for rule, lines in EVERYDAY.items() for line in lines.split("\n")]
)
def test_a_rule_for_a_program_allows_what_people_do_with_it(project: Workspace, rule: str, line: str) -> None:
    found = opinion(project, line, {"allow": [f"Bash({rule})"]})
    assert found.outlook is Outlook.ALLOW, found


UNHARMED = """npm test
    git -C src status
    git commit -m "rm the thing; push"
    git checkout -b rm-x
    python manage.py migrate
    for f in src/*.py; do wc -l "$f"; done
    find src -name x -exec grep y {} +
    X=src; cat $X/a.py
    NODE_ENV=test npm run x
    pytest -k "rm or push"
    sh -c 'cd src && ls'
    timeout 5 make
    git ls-files | xargs echo
    cat src/*.py *.txt
    cat *
    tar czf build/x.tgz src
    cp src/a.py build/
    sed -i s/a/b/ src/a.py
    rg foo
    grep -r x src
    diff -r src build
    find src -name '*.py' -exec cat {} +
    git log --oneline
    git add --all
    git config user.name me
    rm -rf build/x
    docker compose up
    dd if=a.txt of=build/x
    unheard-of src/a.py
    D=build; mkdir -p $D; cp a.txt $D/"""


@pytest.mark.parametrize("line", [line.strip() for line in UNHARMED.split("\n")])
def test_what_has_nothing_to_do_with_a_rule_runs_in_yolo(project: Workspace, line: str) -> None:
    deny = ["Bash(rm a*)", "Bash(git push:*)", "Bash(sudo *)", "Read(.env)", "Edit(scripts/**)"]
    found = opinion(project, line, {"deny": deny}, "yolo")
    assert found.outlook is Outlook.ALLOW, found


def test_a_variable_of_the_environment_may_be_what_the_line_does_not_say(project: Workspace, monkeypatch) -> None:
    line, rules = "false && PLACE=a; cat $PLACE.txt", {"deny": ["Read(.env)"]}
    assert opinion(project, line, rules, "yolo").outlook is Outlook.ALLOW
    monkeypatch.setenv("PLACE", "/elsewhere/")
    assert opinion(project, line, rules, "yolo").outlook is Outlook.ASK


@pytest.mark.parametrize("line", ["grep -r x src", "cat src/*.py", "rm -r src"])
def test_what_is_too_much_to_look_through_asks(project: Workspace, monkeypatch, line: str) -> None:
    rules = {"deny": ["Read(.env)"]}
    assert opinion(project, line, rules, "yolo").outlook is Outlook.ALLOW
    monkeypatch.setattr(disk, "MAX_ENTRIES", 0)
    assert opinion(project, line, rules, "yolo").outlook is Outlook.ASK


def test_more_places_than_are_resolved_ask(project: Workspace, monkeypatch) -> None:
    monkeypatch.setattr(resolving, "MAX_PLACES", 3)
    assert opinion(project, "cat a.txt", {}, "yolo").outlook is Outlook.ALLOW
    assert opinion(project, "cat a.txt b c d e", {}, "yolo").outlook is Outlook.ASK


LONG = {
    "carriers": "env " * 2_400,
    "what xargs runs": "a | xargs " + "b " * 4_000,
    "folders": "".join(f"cd a{number};" for number in range(1_000)) + "cat b",
    "variables": "".join(f"v{number}=a;" for number in range(900)) + "cat " + "".join(f"$v{n}" for n in range(300)),
    "braces": "cat " + "{a,b}" * 1_900,
    "places": "cat " + " ".join(f"a{number:x}" for number in range(2_000)),
    "globs": "cat " + "*/*/*? " * 1_200,
    "lines": "sh -c 'a b'; " * 700,
}


@pytest.mark.parametrize("line", LONG.values(), ids=LONG)
def test_the_longest_line_is_judged_in_bounds(project: Workspace, line: str) -> None:
    """Each took minutes, or longer than anybody waits, without the bounds; what is behind them asks."""
    denied = opinion(project, f"{line[:9_900]}; rm a", {"deny": ["Bash(rm *)", "Read(.env)"]}, "yolo")
    assert denied.outlook is not Outlook.ALLOW


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
    (["Bash", "Edit"], "sh -c 'echo x > .git/config'", Outlook.ASK),
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
    "diff -r src build",
    "diff -N src/a.py b",
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
    ("Read(.env)", "make | grep .env"),
    ("Edit(src/**)", "sed -n 5p src/a.py"),
    ("Edit(src/**)", "echo x > /dev/null"),
    ("Edit(src/**)", "cat src/a.py > build/x"),
]


@pytest.mark.parametrize(("rule", "line"), NOT_MEANT)
def test_a_deny_rule_forbids_no_more_than_it_means(project: Workspace, rule: str, line: str) -> None:
    found = opinion(project, line, {"deny": [rule]}, "yolo")
    assert found.outlook is Outlook.ALLOW, found
