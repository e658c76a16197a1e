"""The pure parts of the tools: diffs, matching, globs, kept output, the environment of commands."""

import difflib
import random
import sys

import pytest

from agentcore.environment import command_environ
from agentcore.ports.tools import ToolError
from agentcore.tools.diffs import unified_diff
from agentcore.tools.globs import Glob
from agentcore.tools.matching import replace_text
from agentcore.tools.output import HeadTail
from agentcore.tools.texts import bounded_lines, safe_name, safe_text


@pytest.mark.parametrize(
    ("text", "safe"),
    [("plain é \U0001f600", "plain é \U0001f600"), ("a\0b", "a\ufffdb"), ("\ud800x\udcff", "\ufffdx\ufffd")],
)
def test_nul_and_lone_surrogates_are_replaced(text: str, safe: str) -> None:
    assert safe_text(text) == safe
    assert safe_name(text + "\r\n") == safe + "\\r\\n"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], ""),
        (["a", "b"], "a\nb"),
        (["a", "é" * 13_000], "a\n" + "é" * 13_000),
        (["a", "é" * 14_000, "b"], "a\n[2 more not shown; look closer]"),
    ],
)
def test_lines_are_bounded_in_size_and_the_missing_are_counted(lines: list[str], text: str) -> None:
    assert bounded_lines(lines, len(lines), "look closer") == text
    assert bounded_lines(["a"], 3, "look closer") == "a\n[2 more not shown; look closer]"


@pytest.mark.parametrize("seed", range(40))
def test_a_diff_says_what_difflib_says(seed: int) -> None:
    chance = random.Random(seed)
    old = [chance.choice("abcdef") for _ in range(chance.randrange(30))]
    new = [line if chance.random() < 0.8 else chance.choice("xyz\n") for line in old]
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    lines = unified_diff(before, after, "p").split("\n")
    hunks = [line for line in lines if line[:2] not in ("--", "++", "@@")][:-1]
    assert difflib_restores(hunks, old, "-", before)
    assert difflib_restores(hunks, new, "+", after)


def difflib_restores(hunks: list[str], lines: list[str], sign: str, text: str) -> bool:
    """Whether the hunks' lines of one side occur in that side, in order."""
    side = [line[1:] for line in hunks if line[0] in (" ", sign)]
    rest = iter(text.split("\n"))
    return all(line in rest for line in side)


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        ("a\n", "a\n", ""),
        ("a\r\nb\r\n", "a\nb\n", ""),
        (None, "", ""),
        (None, "a\n", "--- /dev/null\n+++ b/p\n@@ -0,0 +1,1 @@\n+a\n"),
        ("a\n", "", "--- a/p\n+++ b/p\n@@ -1,1 +0,0 @@\n-a\n"),
        ("a", "a\n", "--- a/p\n+++ b/p\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
            "--- a/p\n+++ b/p\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n",
        ),
        ("a\na\na\n", "a\na\n", "--- a/p\n+++ b/p\n@@ -1,3 +1,2 @@\n a\n a\n-a\n"),
        ("\udcff\n", "x\n", "--- a/p\n+++ b/p\n@@ -1,1 +1,1 @@\n-\ufffd\n+x\n"),
    ],
)
def test_a_diff_is_unified(before: str | None, after: str, diff: str) -> None:
    assert unified_diff(before, after, "p") == diff


def test_two_distant_changes_are_two_hunks() -> None:
    lines = [f"{number}\n" for number in range(100)]
    changed = [*lines[:10], "x\n", *lines[11:90], "y\n", *lines[91:]]
    ours = unified_diff("".join(lines), "".join(changed), "p").split("\n")
    theirs = "".join(difflib.unified_diff(lines, changed, "a/p", "b/p")).split("\n")
    assert ours == theirs


def test_a_diff_of_everything_is_bounded() -> None:
    before = "".join(f"old {number % 7}\n" for number in range(200_000))
    diff = unified_diff(before, before.replace("old", "new"), "p")
    assert len(diff) < 70_000
    assert diff.endswith("more lines of the diff not shown]\n")


def test_a_large_changed_region_is_not_compared_line_by_line() -> None:
    lines = [f"{number}\n" for number in range(3000)]
    shuffled = random.Random(1).sample(lines, len(lines))
    assert unified_diff("".join(lines), "".join(shuffled), "p").count("\n@@ -") == 1


@pytest.mark.parametrize(
    ("text", "old", "new", "everywhere", "result"),
    [
        ("a b", "a", "x", False, "x b"),
        ("a.a", ".", "", False, "aa"),
        ("a a", "a", "aa", True, "aa aa"),
        ("a\nb", "a\r\nb", "c\r\nd", False, "c\nd"),
        ("\r\na\r\n", "\na", "\nb", False, "\r\nb\r\n"),
        ("a", "b", "c", False, None),
        ("aaa", "aa", "b", False, None),
        ("a", "a", "a", False, None),
    ],
)
def test_replacing_is_exact(text: str, old: str, new: str, everywhere: bool, result: str | None) -> None:
    if result is None:
        with pytest.raises(ToolError):
            replace_text(text, old, new, everywhere=everywhere)
    else:
        assert replace_text(text, old, new, everywhere=everywhere) == result


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/x"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["srcs/a"]),
        ("**", ["a", "x/y"], []),
        ("**/**/a", ["a", "x/y/z/a"], ["b"]),
        ("a?[0-9].{c,h}", ["ax1.c", "ay2.h"], ["a1.c", "axx.c", "ax1.o"]),
        ("{a,b{c,d}}/x", ["a/x", "bc/x", "bd/x"], ["b/x", "bcd/x"]),
        ("[!a]*", ["b"], ["a"]),
    ],
)
def test_globs_match_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in yes + no if glob.matches(path)] == yes


def test_a_hostile_glob_costs_no_more_than_its_length() -> None:
    assert not Glob("*a" * 100 + "b").matches("a" * 250)
    assert not Glob("**/a/" * 100 + "b").matches("/".join("a" * 250))


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([], ""),
        ([b"abcdefgh"], "abcdefgh"),
        ([b"abc", b"defgh"], "abcdefgh"),
        ([b"abcdefghi"], "abcd\n[… 1 bytes, 0 lines not shown …]\nfghi"),
        ([b"abcd", b"\n\n\n", b"x" * 50, b"\nyz\n"], "abcd\n[… 53 bytes, 3 lines not shown …]\n\nyz\n"),
        (["abcéééé".encode()], "abc\n[… 3 bytes, 0 lines not shown …]\néé"),
        (["abcdé\u20acz".encode()], "abcd\n[… 2 bytes, 0 lines not shown …]\n\u20acz"),
    ],
)
def test_head_and_tail_are_kept_and_the_middle_is_counted(chunks: list[bytes], text: str) -> None:
    kept = HeadTail(kept_bytes=4)
    for chunk in chunks:
        kept.add(chunk)
    assert kept.text() == text


def test_binary_output_is_cut_again_as_text() -> None:
    kept = HeadTail(kept_bytes=300)
    kept.add(b"\xff" * 600)
    assert kept.text() == "\ufffd" * 100 + "\n[… binary output not shown …]\n" + "\ufffd" * 100


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "TOKEN", "api_key", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWORD",
     "PGPASSWORD", "MYSQL_PWD", "CLIENT_SECRET", "API_KEYS", "GOOGLE_APPLICATION_CREDENTIALS", "NPM_AUTH",
     "AGENTCORE_TOKEN_FILE", "agentcore_home", "SSH_PASSPHRASE", "APIKEY", "AWS_BEARER_TOKEN_BEDROCK",
     "OPENAI_KEY_PROD", "AZURE_OPENAI_KEY_2", "HF_TOKEN_RO", "GITHUB_PAT",
     "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"],
)  # fmt: skip
def test_secrets_are_withheld_from_commands(name: str) -> None:
    assert command_environ({name: "x"}) == {}


@pytest.mark.parametrize("name", ["PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "KEYBOARD", "LANG", "TOKENIZERS"])
def test_the_rest_of_the_environment_is_kept(name: str) -> None:
    assert command_environ({name: "x"}) == {name: "x"}


def test_an_address_that_holds_a_password_is_withheld() -> None:
    environ = {"HTTPS_PROXY": "http://me:secret@proxy:3128", "HTTP_PROXY": "http://proxy:3128", "NOTE": "a@b"}
    assert command_environ(environ) == {"HTTP_PROXY": "http://proxy:3128", "NOTE": "a@b"}


def test_only_the_servers_own_virtual_environment_is_withheld() -> None:
    assert command_environ({"VIRTUAL_ENV": sys.prefix, "PYTHONHOME": sys.prefix}) == {}
    assert command_environ({"VIRTUAL_ENV": "/other"}) == {"VIRTUAL_ENV": "/other"}
