"""`agentcore mcp`: real processes, whole outputs."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.daemon import COMMAND
from tests.mcp.serving import LOCKED, ODD, http_server
from tests.server.test_settings_commands import Desk

REPO = {"mcpServers": {"repo": {"command": "evil\u202e", "env": {"KEY": "sk-secret"}}}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def mcp(desk: Desk, *arguments: str, exits: int = 0) -> str:
    return desk.run("mcp", *arguments, exits=exits)


def settings_of(desk: Desk) -> Path:
    return desk.root / "config" / "agentcore" / "settings.toml"


def test_servers_are_added_listed_and_removed_and_the_file_keeps_the_rest(desk: Desk) -> None:
    assert mcp(desk, "list") == (
        "No MCP servers here. Add one: agentcore mcp add NAME -- COMMAND, or agentcore mcp add NAME URL.\n"
    )
    desk.write("config/agentcore/settings.toml", '# mine\nmode = "plan" # careful\n')
    mcp(desk, "add", "--env", "KEY=${HOME}", "--timeout", "5", "files", "--", "npx", "-y", "--", "server", ".")
    mcp(desk, "add", "--header", "Authorization: Bearer ${TOKEN}", "web", "https://example.com/mcp")
    mcp(desk, "add", "--type", "sse", "old", "http://127.0.0.1:1/sse")
    assert settings_of(desk).read_text() == (
        '# mine\nmode = "plan" # careful\n\n'
        '[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "--", "server", "."]\ntimeout = 5000.0\n\n'
        '[mcp_servers.files.env]\nKEY = "${HOME}"\n\n'
        '[mcp_servers.web]\nurl = "https://example.com/mcp"\n\n'
        '[mcp_servers.web.headers]\nAuthorization = "Bearer ${TOKEN}"\n\n'
        '[mcp_servers.old]\ntype = "sse"\nurl = "http://127.0.0.1:1/sse"\n'
    )
    assert stat.S_IMODE(settings_of(desk).stat().st_mode) == 0o600
    assert mcp(desk, "list") == (
        "SERVER  STATE   TYPE   WHAT                     FROM\n"
        "files   active  stdio  npx -y -- server .       settings.toml\n"
        "web     active  http   https://example.com/mcp  settings.toml\n"
        "old     active  sse    http://127.0.0.1:1/sse   settings.toml\n"
    )
    for name in ("files", "web", "old"):
        assert mcp(desk, "remove", name) == f"Removed {name}.\n"
    assert settings_of(desk).read_text().strip() == '# mine\nmode = "plan" # careful'


@pytest.mark.parametrize(
    "arguments",
    [
        ("--header", "A: b", "--timeout", "5", "web", "https://example.com/mcp"),
        ("web", "https://example.com/mcp", "--header", "A: b", "--timeout", "5"),
        ("web", "--header", "A: b", "https://example.com/mcp", "--timeout=5"),
    ],
)
def test_options_stand_before_between_and_behind_what_they_are_about(desk: Desk, arguments: tuple[str, ...]) -> None:
    mcp(desk, "add", *arguments)
    assert settings_of(desk).read_text() == (
        '[mcp_servers.web]\nurl = "https://example.com/mcp"\ntimeout = 5000.0\n\n[mcp_servers.web.headers]\nA = "b"\n'
    )


def test_what_stands_behind_two_dashes_is_the_commands(desk: Desk) -> None:
    mcp(desk, "add", "files", "--env", "A=b", "--env", "C=d", "--", "serve", "--env", "X=y", "--help")
    assert settings_of(desk).read_text() == (
        '[mcp_servers.files]\ncommand = "serve"\nargs = ["--env", "X=y", "--help"]\n\n'
        '[mcp_servers.files.env]\nA = "b"\nC = "d"\n'
    )


def test_a_server_for_one_project_is_not_there_in_another(desk: Desk) -> None:
    (desk.root / "other").mkdir()
    mcp(desk, "add", "--project", "--cwd", "work", "files", "--", "serve")
    assert "files" in mcp(desk, "list", "--cwd", "work")
    assert "files" not in mcp(desk, "list", "--cwd", "other")
    assert not settings_of(desk).exists()
    mcp(desk, "remove", "files", exits=2)
    mcp(desk, "remove", "--project", "--cwd", "work", "files")
    assert "files" not in mcp(desk, "list", "--cwd", "work")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add", "x"), "Say what it is: agentcore mcp add NAME URL, or agentcore mcp add NAME -- COMMAND [ARG…]."),
        (("add", "x", "npx"), "npx is no URL. A command stands behind --: agentcore mcp add x -- npx"),
        (
            ("add", "x", "npx", "-y", "server"),
            "-y is no option here. A command and what belongs to it stand behind --:",
        ),
        (("add", "x", "http://a", "b"), "Too many arguments: b. A command and what belongs to it stand behind --:"),
        (("add", "x", "http://a", "--", "b"), "Say what it is: agentcore mcp add NAME URL, or"),
        (("add", "--env", "A", "x", "--", "b"), "Write --env NAME=VALUE."),
        (("add", "--header", "A: b", "x", "--", "b"), "A server that is a command has no --header."),
        (("add", "--env", "A=b", "x", "http://a"), "A server at an address has no --env."),
        (("add", "--type", "sse", "x", "--", "b"), "The MCP server `x` in settings.toml cannot be used: a server of"),
        (("add", "a b", "--", "b"), "The MCP server `a?b` in settings.toml cannot be used: a server's name has"),
        (("add", "x", "ftp://a"), "The MCP server `x` in settings.toml cannot be used: its url begins with neither"),
        (("add", "x", "http://"), "The MCP server `x` in settings.toml cannot be used: its url begins with neither"),
        (("remove", "x"), "There is no MCP server x in these settings of yours: see agentcore mcp list."),
        (("approve", "x"), "No MCP server x of a repository waits here: see agentcore mcp list."),
        (("login", "x"), "There is no MCP server x here: see agentcore mcp list."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(desk: Desk, arguments: tuple[str, ...], told: str) -> None:
    assert mcp(desk, *arguments, exits=2).startswith(f"agentcore: {told}")
    assert not settings_of(desk).exists()


def test_one_that_is_there_is_not_replaced(desk: Desk) -> None:
    mcp(desk, "add", "x", "--", "one")
    said = mcp(desk, "add", "x", "--", "two", exits=2)
    assert said == "agentcore: There is an MCP server x in settings.toml already. Remove it first.\n"
    assert "one" in mcp(desk, "list")


def test_a_server_of_a_repository_is_shown_whole_and_approved_by_name(desk: Desk) -> None:
    desk.write("work/.mcp.json", REPO)
    listed = mcp(desk, "list", "--cwd", "work")
    assert "repo    waiting  stdio  evil\\u202e  .mcp.json\n" in listed
    assert "sk-secret" not in listed
    approved = mcp(desk, "approve", "--cwd", "work", "repo")
    assert approved.splitlines()[:2] == [
        "active  MCP server repo in .mcp.json",
        '        {"command": "evil\\u202e", "env": {"KEY": "sk-secret"}}',
    ]
    assert " active " in mcp(desk, "list", "--cwd", "work")
    mcp(desk, "approve", "--deny", "--cwd", "work", "repo")
    assert " denied " in mcp(desk, "list", "--cwd", "work")
    assert mcp(desk, "login", "--cwd", "work", "repo", exits=2) == (
        "agentcore: The MCP server repo waits for approval: agentcore mcp approve repo.\n"
    )


def test_check_connects_to_what_may_run_and_to_nothing_else(desk: Desk) -> None:
    mark = desk.root / "ran"
    desk.write("work/.mcp.json", {"mcpServers": {"repo": {"command": "touch", "args": [str(mark)]}}})
    mcp(desk, "add", "odd", "--", sys.executable, "-I", str(ODD))
    mcp(desk, "add", "none", "--", "/no/such/command")
    mcp(desk, "add", "unset", "--", "${NO_SUCH_VARIABLE}")
    done = desk.finish("mcp", "list", "--check", "--cwd", "work")
    told = done.stdout.partition("\n\n")[2]
    assert [re.split(r"  +", line.strip()) for line in told.splitlines()] == [
        ["SERVER", "NOW", "TOOLS"],
        ["none", "failed", "0", "It cannot be started: /no/such/command: No such file or directory."],
        ["odd", "ready", "1"],
        ["unset", "failed", "0", "The MCP server unset needs the variable NO_SUCH_VARIABLE, which is not set."],
    ]
    assert done.returncode == 1
    assert done.stderr == "note: MCP server repo of .mcp.json waits for approval: see agentcore hooks.\n"
    assert not mark.exists()


def test_check_says_so_when_none_may_run(desk: Desk) -> None:
    desk.write("work/.mcp.json", {"mcpServers": {"repo": {"command": "x"}}})
    assert mcp(desk, "list", "--check", "--cwd", "work").endswith("\n\nNone of them may run, so none was tried.\n")
    assert mcp(desk, "list", "--check").startswith("No MCP servers here.")


BROKEN: dict[str, tuple[str, object, str]] = {
    "no JSON": ("work/.mcp.json", "{", ".mcp.json is no JSON at line 1"),
    "a list": ("work/.mcp.json", [], ".mcp.json must hold a JSON object"),
    "no table": ("work/.mcp.json", {"mcpServers": [1]}, "`mcpServers` in .mcp.json (line 1) is no table of servers"),
    "a wrong type": ("work/.mcp.json", {"mcpServers": {"x": {"command": 3}}}, "`command`: input should be a valid str"),
    "no address": ("work/.mcp.json", {"mcpServers": {"x": {"url": "ftp://x"}}}, "its url begins with neither http://"),
    "own": ("config/agentcore/settings.toml", "[mcp_servers.x]\ncommand = 3", "The MCP server `x` in settings.toml"),
    "own key": (
        "config/agentcore/settings.toml",
        '[mcp_servers.x]\ncommand = "true"\nargz = []',
        "`argz` of the MCP server `x` in settings.toml (line 3) has no effect",
    ),
}


@pytest.mark.parametrize(("file", "content", "told"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_in_a_file_of_servers_is_told(desk: Desk, file: str, content: object, told: str) -> None:
    desk.write(file, content)
    listed = desk.finish("mcp", "list", "--cwd", "work")
    notes = [line for line in desk.run("config", "--cwd", "work").splitlines() if line.startswith("note: ")]
    assert (listed.returncode, listed.stderr.splitlines()) == (0, notes)
    assert told in listed.stderr
    assert desk.finish("mcp", "list", "--check", "--cwd", "work").returncode == 1


@pytest.mark.parametrize("action", [("mcp", "add", "x", "--", "y"), ("mcp", "add", "--project", "x", "--", "y")])
def test_a_home_that_cannot_be_written_is_a_sentence(desk: Desk, action: tuple[str, ...]) -> None:
    said = desk.run(*action, exits=2, XDG_CONFIG_HOME="/proc/nowhere")
    assert said == "agentcore: /proc/nowhere cannot be used: No such file or directory.\n"


def test_a_person_logs_in_through_the_browser_and_no_token_is_shown(desk: Desk) -> None:
    with http_server("3600", program=LOCKED) as (port, _):
        mcp(desk, "add", "locked", f"http://127.0.0.1:{port}/mcp")
        process = subprocess.Popen(
            [COMMAND, "mcp", "login", "--no-browser", "locked"],
            cwd=desk.root,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(desk.home),
                "XDG_CONFIG_HOME": str(desk.root / "config"),
                "AGENTCORE_MODEL": "scripted/demo",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert process.stderr.readline() == "Allow it in your browser:\n"
        url = process.stderr.readline().strip()
        assert "logged in" in httpx.get(url, follow_redirects=True).text
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "Logged in at locked: 1 tool.\n")
        assert "access-" not in out + errors
        kept = desk.root / "config" / "agentcore" / "mcp-logins.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert "access-" in kept.read_text()
        assert re.search(r"locked +ready +1", mcp(desk, "list", "--check"))
        assert mcp(desk, "logout", "locked") == "Logged out of locked.\n"
        assert re.search(r"locked +needs_login +0", desk.finish("mcp", "list", "--check").stdout)
