"""A shell line taken apart, and held against what bash itself does with it."""

import random
import subprocess
from pathlib import Path

import pytest

from agentcore.permissions.commands import approves
from agentcore.permissions.inner import ANYTHING, MAX_WORDS, inner_commands, is_whole
from agentcore.permissions.shell import MAX_COMMAND_CHARS, Script, read_script
from agentcore.permissions.words import HOLE

APART = {
    "git status": ["git status"],
    "a && b || c; d | e & f": ["a", "b", "c", "d", "e", "f"],
    "a\nb": ["a", "b"],
    "(a; { b; })": ["a", "b"],
    "a $(b `c`) <(d)": ["a ? ?", "b ?", "c", "d"],
    'a "x $(b) y"': ["a x ? y", "b"],
    "if a; then b; elif c; then d; else e; fi": ["a", "b", "c", "d", "e"],
    "for i in 1 2; do a $i; done": ["a ?"],
    "while a; do b; done": ["a", "b"],
    "case $x in a|b) c;; *) d;; esac": ["c", "d"],
    "! a": ["a"],
    "cat <<EOF | b\n$(c)\nEOF\nd": ["cat", "b", "c", "d"],
    "cat <<'EOF'\n$(c)\nEOF": ["cat"],
    "[ -f x ] && a": ["a"],
    "A=1 B=$(b) c": ["c", "b"],
    "echo $((1 + 2))": ["echo ?"],
    "a 'b c' \"d e\" f\\ g": ["a b c d e f g"],
    "a # b\nc": ["a", "c"],
    "a \\\n  b": ["a b"],
    "a {b,c} d* $e ${f:-g}": ["a ? d? ? ?"],
    "2>x a": ["a"],
    "é ü": ["é ü"],
}


@pytest.mark.parametrize(("line", "commands"), APART.items())
def test_each_command_of_a_line_is_found(line: str, commands: list[str]) -> None:
    script = read_script(line)
    assert script.problem is None
    found = [" ".join(word.loose for word in segment.words) for segment in script.segments]
    assert [text.replace(HOLE, "?") for text in found] == commands


FILES = {
    "a > b": (["b"], []),
    "a >> b 2> c": (["b", "c"], []),
    "a &> b": (["b"], []),
    "a >& b": (["b"], []),
    "a >| b": (["b"], []),
    "> b": (["b"], []),
    "{ a; } > b": (["b"], []),
    "a < b": ([], ["b"]),
    "a > $b": ([HOLE], []),
    "a > 'b c'": (["b c"], []),
    "a 2>&1 >/dev/null </dev/null": ([], []),
    "a >&2 2>&-": ([], []),
}


@pytest.mark.parametrize(("line", "files"), FILES.items())
def test_the_files_of_redirections_are_found(line: str, files: tuple[list[str], list[str]]) -> None:
    script = read_script(line)
    assert ([word.loose for word in script.writes], [word.loose for word in script.reads]) == files


UNCLEAR = {
    "git > out push": "behind a redirection",
    "git 2>&1 push": "behind a redirection",
    "cat <<E c\nx\nE": "behind a here-document",
    "echo\\\nfoo": "between the parts of a command",
    "echo foo\\\n#bar; rm x": "between the parts of a program",
    "time { ls; }": "the word }",
    "coproc ls": "the word coproc",
    "cat <<E\nhi\nE \nrm x\nE": "here-document",
    "cat <<E\n  E\nE": "here-document",
    "x $(cat <<E\nhi\nE)": "here-document",
    "cat <<E\nhi `rm x`\nE": "here-document",
    "cat <<E\\ F\nhi\nE F": "here-document",
    "echo `echo \\`rm\\``": "backslash in backquotes",
    "echo 'x": "syntax",
    "echo <>x": "syntax",
    "echo *(x)": "syntax",
    'echo "$[1+1]"': "arithmetic",
    "echo $((x))": "arithmetic",
    "((x))": "computation",
    "for ((;;)); do ls; done": "c style for",
    "a[0]=1": "an element",
    "echo ${X@P}": "the expansion",
    "echo ${!X}": "the expansion",
    "echo ${X:=1}": "the expansion",
    "echo ${X[0]}": "the expansion",
    "echo \"${X:-'`rm x`'}\"": "the expansion",
    "ls a\rb": "U+000D",
    "ls\u00a0b": "U+00A0",
    "ls \u202eb": "U+202E",
}


@pytest.mark.parametrize(("line", "part"), UNCLEAR.items())
def test_what_the_parser_may_read_otherwise_than_bash_is_a_problem(line: str, part: str) -> None:
    assert part in str(read_script(line).problem)


INNER = {
    "env A=1 rm x": "rm x",
    "sudo -u me nice rm x": "rm x",
    "sh -c 'cd y && rm x'": "rm x",
    "bash -c \"sh -c 'rm x'\"": "rm x",
    "find . -exec rm {} +": "rm {} +",
    "xargs -0 rm": f"rm {HOLE}",
    "echo $(eval 'rm x')": "rm x",
    "watch 'rm x'": "rm x",
    'sh -c "rm $X"': f"rm {HOLE}",
    "env " + "A=1 " * 100 + "rm x": "rm x",
    "env -S'rm x'": "rm x",
    "git -c alias.y='!rm x' y": "rm x",
    "tar --to-command='rm x' -xf y": "rm x",
}


@pytest.mark.parametrize(("line", "command"), INNER.items())
def test_commands_inside_arguments_are_found(line: str, command: str) -> None:
    assert command in [" ".join(word.loose for word in words) for words in inner_commands(read_script(line))]


def test_a_long_line_and_a_deep_one_are_not_looked_at() -> None:
    assert read_script("a" * MAX_COMMAND_CHARS).problem is None
    assert "longer" in str(read_script("a" * (MAX_COMMAND_CHARS + 1)).problem)
    for deep in ("$(" * 500 + "a" + ")" * 500, "(" * 3000 + "a" + ")" * 3000, "{ " * 400 + "a;" + " }" * 400):
        assert read_script(f"echo {deep}" if deep.startswith("$") else deep).problem is not None


@pytest.mark.parametrize("line", ["env " * 2_400, "a | xargs " + "b " * 4_000, "sh -c 'env a b c' ; " * 500])
def test_what_is_looked_into_has_a_bound_and_it_is_said_where_that_is_reached(line: str) -> None:
    script = read_script(line)
    assert sum(map(len, inner_commands(script))) < 3 * MAX_WORDS
    assert is_whole(script) is (ANYTHING not in inner_commands(script))


@pytest.mark.parametrize(
    "line", ["a\ud800", "a\0b", "", " ", "\n", "#", "'", '"', "`", "$(", "<<", "<<E", "&", ";", "\\"]
)
def test_nothing_breaks_the_reader(line: str) -> None:
    assert isinstance(read_script(line), Script)


PIECES = [
    "git ",
    "git",
    "status",
    " ",
    "evil",
    "; evil",
    " evil\n",
    "evil ",
    ";",
    "'",
    '"',
    "\\",
    "\n",
    "$(",
    ")",
    "`",
    "#",
    " #",
    " <<E\n",
    "\nE\n",
    "E",
    "&",
    "|",
    "&&",
    "||",
    "{ ",
    "; }",
    "$'",
    "(",
    ")",
    "\\\n",
    "a",
    " <<-E\n",
    " <<'E'\n",
    "\t",
    "<",
    ">",
    "x=",
    "[[ ",
    " ]]",
    "$((",
    "))",
    "case x in x) ",
    ";; esac",
    "if git; then ",
    "; fi",
    "! ",
    "<(",
    "${x:-",
    "}",
    "for i in a; do ",
    "; done",
    " -m ",
    '"$(',
    ')"',
    "''",
    '""',
    "\\'",
    '\\"',
    "<<< ",
    "$x",
    "$(:)",
    "\nE",
    "  ",
    "~",
    "*",
    "{a,b}",
    "time ",
    "while ",
    "do ",
    "done",
    "in",
    "f() ",
    "coproc ",
    "2>&1 ",
    ">&",
    "\r",
    "\u00a0",
    "é",
    "command ",
]
LAST = ["evil", "; evil", "\nevil", " evil", "'\nevil", "\nE\nevil", '"; evil', ")\nevil"]
SEED, LINES = 5, 6000


def test_no_line_of_which_each_command_is_approved_runs_another_one_in_bash(tmp_path: Path) -> None:
    """Random lines out of everything that means something to a shell; those that `git *` approves are run."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    mark = tmp_path / "mark"
    for name, body in (("git", "exit 0"), ("evil", f": > {mark}")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    chance = random.Random(SEED)
    approved = 0
    for _ in range(LINES):
        line = "git " + "".join(chance.choice(PIECES) for _ in range(chance.randint(2, 9))) + chance.choice(LAST)
        script = read_script.__wrapped__(line)
        if script.problem is not None or not all(approves("git *", segment) for segment in script.segments):
            continue
        approved += 1
        subprocess.run(
            ["/bin/bash", "-c", "--", line],
            cwd=tmp_path / "work",
            env={"PATH": str(tmp_path / "bin")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
        assert not mark.exists(), (SEED, line)
    assert approved > 50  # the walk meets what is allowed as well
