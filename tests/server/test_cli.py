"""The command line: what it refuses, what it says where, and what it hands on."""

import argparse
import io
import json
import stat
import sys
from pathlib import Path
from typing import get_args

import anyio
import pytest

from agentcore.events import Mode
from server import cli, serve
from server.settings import STATE_VARIABLE, TOKEN_VARIABLE, CannotStart, Token, find_token, folders
from tests.server.processes import daemon, run

pytestmark = pytest.mark.anyio

REFUSED = {
    "nothing": ((), "agentcore serve"),
    "unknown command": (("sreve",), "sreve"),
    "unknown option": (("serve", "--prot", "1"), "--prot"),
    "abbreviation": (("serve", "--por", "0"), "--por"),
    "port": (("serve", "--port", "many"), "--port"),
    "port out of range": (("serve", "--port", "70000"), "70000"),
    "mode": (("serve", "--mode", "wild"), "accept-edits"),
    "yolo": (("serve", "--mode", "yolo"), "--allow-yolo"),
    "root": (("serve", "--root", "/no/such/folder"), "/no/such/folder"),
    "root is a file": (("serve", "--root", __file__), "not a folder"),
    "host": (("serve", "--host", "0.0.0.0"), "--allow-remote"),
    "remote without a token": (("serve", "--host", "0.0.0.0", "--allow-remote"), "token of your own"),
    "two places": (("serve", "--uds", "/tmp/x", "--port", "0"), "--uds"),
    "two tokens": (("serve", "--token", "x", "--token-file", "/x"), "not allowed with"),
    "empty token": (("serve", "--token", " "), "empty"),
    "token with a space": (("serve", "--token", "a b"), "letters, digits"),
    "token with a quote": (("serve", "--token", 'a"b'), "letters, digits"),
    "unknown effort": (("serve", "--effort", "bogus"), "invalid choice"),
    "no token file": (("serve", "--token-file", "/no/such/file"), "/no/such/file"),
    "allowed host": (("serve", "--allowed-host", "http://x"), "--allowed-host"),
    "any origin": (("serve", "--allow-origin", "*"), "--allow-origin"),
    "null origin": (("serve", "--allow-origin", "null"), "--allow-origin"),
    "origin with a path": (("serve", "--allow-origin", "https://x/y"), "--allow-origin"),
    "yolo without a server": (("run", "-p", "x", "--mode", "yolo"), "--allow-yolo"),
    "no prompt": (("run",), "prompt"),
    "empty prompt": (("run", "-p", " "), "prompt"),
    "no folder": (("run", "-p", "x", "--cwd", "/no/such/folder"), "/no/such/folder"),
    "turns": (("run", "-p", "x", "--max-turns", "0"), "--max-turns"),
}


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("serve", "--prot", "1"), "agentcore serve"),
        (("serve", "--port", "many"), "agentcore serve"),
        (("run", "-p", "x", "--bogus"), "agentcore run"),
        (("models", "more"), "agentcore models"),
        (("doctor",), "agentcore doctor"),
        (("sreve",), "agentcore"),
    ],
)
def test_a_mistake_names_the_help_that_says_more(
    arguments: tuple[str, ...], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == cli.EXIT_USAGE
    assert capsys.readouterr().err.endswith(f"({command} --help says more).\n")


@pytest.mark.parametrize("command", ["doctor", "trace"])
def test_without_any_session_there_is_no_latest(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "latest", "--state-dir", str(tmp_path)]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == (
        f"agentcore: There is no session below {tmp_path}/data/sessions yet; --state-dir names another place.\n"
    )


@pytest.mark.parametrize(("arguments", "part"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_done_is_one_sentence(
    arguments: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    code = cli.main(arguments)
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1)
    assert part in said.err


async def test_the_version_is_printed() -> None:
    code, out, _ = await run("--version")
    assert (code, out.split()[0]) == (0, "agentcore")


def test_the_modes_are_those_of_the_vocabulary() -> None:
    assert set(cli.MODES) == set(get_args(Mode))


async def test_stdout_is_the_start_line_and_people_read_stderr(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    async with daemon("--port", "0", "--root", str(more), "--model", "fake/m", state=tmp_path / "state") as server:
        file = json.loads((tmp_path / "state" / "servers" / f"{server.process.pid}.json").read_text())
        with anyio.fail_after(10):
            assert await server.end() == 0
        out, err = await server.rest()
    assert server.start == {key: value for key, value in file.items() if key != "started"}
    assert server.start["pid"] == server.process.pid
    assert server.start["roots"] == [str(Path.cwd()), str(more)]
    assert out == ""
    said = (server.url, str(more), "fake/m", "the model is a stub", "unfinished runs: 2")
    assert all(part in err for part in said)
    assert server.start["token"] not in err
    assert list((tmp_path / "state" / "servers").iterdir()) == []


async def test_two_daemons_make_two_tokens(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path) as one, daemon("--port", "0", state=tmp_path) as two:
        assert one.start["token"] != two.start["token"]
        assert min(len(one.start["token"]), len(two.start["token"])) >= 43


async def test_a_token_on_the_command_line_works_and_warns(tmp_path: Path) -> None:
    async with daemon("--port", "0", "--token", "chosen", state=tmp_path) as server:
        assert server.start["token"] == "chosen"
        with anyio.fail_after(10):
            await server.end()
        _, err = await server.rest()
    assert "process list" in err


def test_the_token_comes_from_the_file_then_the_environment_then_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    file.chmod(0o600)
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert find_token(file, None) == Token("from-file", is_chosen=True)
    assert find_token(None, "given") == Token("given", is_chosen=True)
    assert find_token(None, None) == Token("from-environment", is_chosen=True)
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert not find_token(None, None).is_chosen


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    for bits in (stat.S_IRGRP, stat.S_IROTH, stat.S_IWOTH):
        file.chmod(0o600 | bits)
        with pytest.raises(CannotStart, match="chmod 600") as caught:
            find_token(file, None)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n", "a b", "\xe9"])
def test_a_token_that_no_header_can_carry_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(CannotStart):
        find_token(file, None)


def test_an_empty_token_in_the_environment_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    with pytest.raises(CannotStart, match="empty"):
        find_token(None, None)


def parsed(*arguments: str) -> argparse.Namespace:
    return cli._parser().parse_args(["serve", *arguments])


def test_settings_hold_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    arguments = parsed(
        *("--root", "more", "--root", ".", "--mode", "yolo", "--allow-yolo", "--unattended", "deny"),
        *("--allowed-host", "Box.Example:81", "--allow-origin", "HTTPS://Dash.Example/", "--state-dir", "s"),
    )
    settings = serve._settings(arguments, Token("t", is_chosen=True))
    assert settings.roots == (tmp_path, tmp_path / "more")
    assert (settings.state_dir, settings.data_dir) == (tmp_path / "s", tmp_path / "s" / "data")
    assert (settings.allowed_hosts, settings.allow_origins) == (("box.example:81",), ("https://dash.example",))
    assert (settings.mode, settings.unattended, settings.token) == ("yolo", "deny", "t")
    assert settings.token_file is None
    assert "'t'" not in repr(settings)


def test_the_state_folder_comes_from_the_command_line_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STATE_VARIABLE, "outside")
    found, chosen = folders(None), folders(Path("chosen"))
    assert (found.state, found.data) == (tmp_path / "outside", tmp_path / "outside" / "data")
    assert (chosen.state, chosen.data) == (tmp_path / "chosen", tmp_path / "chosen" / "data")
    monkeypatch.setenv(STATE_VARIABLE, "")
    empty = folders(None)
    monkeypatch.delenv(STATE_VARIABLE)
    assert empty == folders(None)


@pytest.mark.parametrize("command", ["serve", "run"])
def test_the_help_names_the_variable_of_the_state_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert STATE_VARIABLE in capsys.readouterr().out


def test_settings_know_where_the_token_is_behind_any_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "token")
    arguments = parsed("--token-file", str(tmp_path / "link"))
    assert serve._settings(arguments, Token("t", is_chosen=True)).token_file == tmp_path.resolve() / "token"


def test_without_a_choice_the_folders_are_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(STATE_VARIABLE, raising=False)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    found = folders(None)
    if sys.platform == "linux":
        assert (found.config, found.data, found.state) == tuple(
            tmp_path / name / "agentcore" for name in ("CONFIG", "DATA", "STATE")
        )


RUNS = {
    "option": (("-p", "do it"), b"", "do it"),
    "dash": (("-p", "-"), "tu's\né".encode(), "tu's\né"),
    "pipe": ((), b"piped", "piped"),
}


@pytest.mark.parametrize(("arguments", "stdin", "prompt"), RUNS.values(), ids=RUNS.keys())
async def test_run_hands_the_prompt_on(arguments: tuple[str, ...], stdin: bytes, prompt: str, tmp_path: Path) -> None:
    code, out, _ = await run("run", *arguments, "--cwd", str(tmp_path), "--max-turns", "3", stdin=stdin)
    assert (code, json.loads(out)) == (7, {"prompt": prompt, "cwd": str(tmp_path), "output": "text", "max_turns": 3})


HEAVY = {"uvicorn", "starlette", "pydantic", "anyio", "httpx", "anthropic", "openai", "yaml"}


async def test_a_mistake_is_told_before_anything_heavy_is_imported() -> None:
    script = (
        "import sys; from server import cli; code = cli.main(['serve', '--root', '/no/such/folder']); "
        "print(code, sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    with anyio.fail_after(20):
        done = await anyio.run_process([sys.executable, "-c", script])
    code, _, modules = done.stdout.decode().partition(" ")
    assert code == "2"
    assert not HEAVY & set(modules.strip("[]\n' ").split("', '"))
