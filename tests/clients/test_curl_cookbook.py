"""Every recipe of the curl cookbook, run by a shell against a real server.

The server plays the built-in demo, which asks for a permission before it writes, edits, and runs a command; so every
story has its requests.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio import fail_after, to_thread

from tests.daemon import Daemon

COOKBOOK = Path(__file__).parents[2] / "clients" / "curl"
PATIENCE_S = 30.0
in_both_shells = pytest.mark.parametrize("cook", ["sh", "bash"], indirect=True)


class Cook:
    """Runs recipes, as somebody in a shell would."""

    def __init__(self, url: str, token: str, cwd: Path, shell: str = "sh") -> None:
        self._shell = shell
        self._cwd = cwd
        self.env = {**os.environ, "AGENTCORE_URL": url, "AGENTCORE_TOKEN": token}

    def run(self, recipe: str, *arguments: str, exits: int = 0) -> str:
        result = subprocess.run(
            self._argv(recipe, arguments),
            cwd=self._cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert result.returncode == exits, result.stdout + result.stderr
        return result.stdout

    def json(self, recipe: str, *arguments: str, exits: int = 0) -> Any:
        return json.loads(self.run(recipe, *arguments, exits=exits))

    @contextmanager
    def running(self, recipe: str, *arguments: str) -> Iterator[IO[str]]:
        """Start a recipe that does not end by itself; end it, and the curl in it, at the end."""
        process = subprocess.Popen(
            self._argv(recipe, arguments),
            cwd=self._cwd,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process:
            try:
                yield process.stdout
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def open_request(self, session: str) -> dict[str, Any]:
        """The request that waits, once there is one."""
        found = wait_until(lambda: self.json("05-permissions.sh", session)["permissions"])
        request: dict[str, Any] = found[0]
        return request

    def _argv(self, recipe: str, arguments: tuple[str, ...]) -> list[str]:
        return [self._shell, str(COOKBOOK / recipe), *arguments]


def wait_until(condition: Callable[[], Any]) -> Any:
    """Ask until the condition holds; each question is a round trip to the server."""

    async def ask() -> Any:
        with fail_after(PATIENCE_S):
            while not (found := await to_thread.run_sync(condition)):
                await anyio.lowlevel.checkpoint()
            return found

    return anyio.run(ask)


def read_until(output: IO[str], found: Callable[[str], bool]) -> list[str]:
    """The lines up to the one that is looked for; the pipe ends with its process, which bounds the wait."""
    lines: list[str] = []
    for line in output:
        lines.append(line.rstrip("\n"))
        if found(lines[-1]):
            return lines
    raise AssertionError("\n".join(lines))


@pytest.fixture
def cook(daemon: Daemon, request: pytest.FixtureRequest) -> Cook:
    return Cook(daemon.url, daemon.token, daemon.cwd, getattr(request, "param", "sh"))


@pytest.fixture
def session(cook: Cook) -> Iterator[str]:
    session = cook.run("02-create-session.sh").strip()
    yield session
    cook.run("14-close.sh", session)


def test_readme_lists_every_recipe() -> None:
    listed = re.findall(r"\]\((\d\d-[a-z-]+\.sh)\)", (COOKBOOK / "README.md").read_text())
    assert listed == sorted(path.name for path in COOKBOOK.glob("*.sh"))


def test_every_recipe_is_run_here() -> None:
    run_here = set(re.findall(r'"(\d\d-[a-z-]+\.sh)"', Path(__file__).read_text()))
    assert run_here == {path.name for path in COOKBOOK.glob("*.sh")}


@pytest.mark.parametrize("recipe", sorted(COOKBOOK.glob("*.sh")), ids=lambda recipe: recipe.name)
def test_token_is_never_an_argument(recipe: Path) -> None:
    outside, inside = [], False
    for line in recipe.read_text().splitlines():
        if not inside and not line.lstrip().startswith("#"):
            outside.append(line)
        inside = "<<END" in line or (inside and line != "END")
    assert not [line for line in outside if "$AGENTCORE_TOKEN" in line]


@in_both_shells
def test_connect_finds_the_server(daemon: Daemon, cook: Cook) -> None:
    cook.env["AGENTCORE_STATE_DIR"] = str(daemon.state_dir)
    assert cook.run("00-connect.sh").splitlines() == [
        f"export AGENTCORE_URL='{daemon.url}'",
        f"export AGENTCORE_TOKEN='{daemon.token}'",
    ]


def test_connect_says_when_there_is_none(cook: Cook, tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    cook.env["AGENTCORE_STATE_DIR"] = str(tmp_path)
    assert cook.run("00-connect.sh", exits=1) == ""


def test_health(cook: Cook) -> None:
    assert cook.json("01-health.sh") == {"ok": True}


def test_created_session_is_listed(cook: Cook, session: str) -> None:
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z2-7]{6}", session)
    assert session in [entry["id"] for entry in cook.json("15-list-sessions.sh", "100")["sessions"]]


def test_stream_shows_a_prompt(cook: Cook, session: str) -> None:
    with cook.running("03-stream.sh", session) as output:
        read_until(output, lambda line: line == "event: snapshot")
        accepted = cook.json("04-prompt.sh", session, r'say "hi" \ there')
        shown = read_until(output, lambda line: line.startswith("data:") and accepted["prompt_id"] in line)
    assert r"say \"hi\" \\ there" in shown[-1]


def test_prompt_is_answered_with_where_to_read_on(cook: Cook, session: str) -> None:
    accepted = cook.json("04-prompt.sh", session, "go")
    assert (accepted["session"], accepted["disposition"]) == (session, "started")
    refused = cook.json("04-prompt.sh", session, "again", exits=22)
    assert refused["code"] == "session_busy"


@pytest.mark.parametrize(("word", "resolution"), [("allow", "allowed"), ("deny", "denied"), ("always", "allowed")])
def test_answer(cook: Cook, session: str, tmp_path: Path, word: str, resolution: str) -> None:
    cook.run("04-prompt.sh", session, "go")
    request = cook.open_request(session)
    stale = cook.json("06-answer.sh", session, request["request_id"], word, "0" * 64, exits=22)
    assert stale["code"] == "stale_request"
    said = cook.run("06-answer.sh", session, request["request_id"], word, request["digest"])
    assert (json.loads(said)["allowed"] if word == "always" else said == "") is True
    late = cook.json("06-answer.sh", session, request["request_id"], "allow", exits=22)
    assert (late["code"], late["details"]) == ("already_resolved", {"resolution": resolution})


@in_both_shells
def test_prompt_and_wait_gives_the_text(cook: Cook, session: str) -> None:
    with cook.running("07-prompt-and-wait.sh", session, "go") as output:
        for _ in range(3):
            request = cook.open_request(session)
            cook.run("06-answer.sh", session, request["request_id"], "allow")
        answer = json.loads(output.read())
    assert (answer["session"], answer["stop_reason"]) == (session, "end_turn")
    assert "That was the demo" in answer["text"]


@in_both_shells
def test_reconnect_goes_on_where_it_left_off(cook: Cook, session: str, tmp_path: Path) -> None:
    cursor = tmp_path / "cursor"
    cook.run("04-prompt.sh", session, "first")
    with cook.running("08-reconnect.sh", session, str(cursor)) as output:
        first = read_until(output, lambda line: '"type":"permission_request"' in line)
        wait_until(lambda: int(cursor.read_text() or 0) == number(first[-1]))
    assert cook.json("10-cancel.sh", session) == {"cancelled": True}
    cook.run("04-prompt.sh", session, "second")
    with cook.running("08-reconnect.sh", session, str(cursor)) as output:
        second = read_until(output, lambda line: '"type":"permission_request"' in line)
    numbers = [number(line) for line in first + second if '"snapshot"' not in line]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert any('"type":"done"' in line for line in second)


def number(line: str) -> int:
    seq: int = json.loads(line).get("seq", 0)
    return seq


@in_both_shells
def test_reconnect_ends_with_the_session(cook: Cook, tmp_path: Path) -> None:
    session = cook.run("02-create-session.sh").strip()
    with cook.running("08-reconnect.sh", session, str(tmp_path / "cursor")) as output:
        read_until(output, lambda line: '"snapshot"' in line)
        cook.run("14-close.sh", session)
        assert '"type":"session_closed"' in output.read()
    assert cook.run("08-reconnect.sh", session, str(tmp_path / "cursor"), exits=1) == ""


def test_ticket_opens_one_stream(cook: Cook, session: str) -> None:
    address = cook.run("09-ticket.sh", session).strip()
    with httpx.stream("GET", address) as first:
        assert next(first.iter_lines()) == ": connected"
    assert httpx.get(address).status_code == 401


def test_cancel_ends_the_run(cook: Cook, session: str) -> None:
    cook.run("04-prompt.sh", session, "go")
    cook.open_request(session)
    assert cook.json("10-cancel.sh", session) == {"cancelled": True}
    assert cook.json("05-permissions.sh", session) == {"permissions": []}
    wait_until(lambda: cook.json("10-cancel.sh", session) == {"cancelled": False})


def test_messages_and_clear(cook: Cook, session: str) -> None:
    cook.run("04-prompt.sh", session, "remember this")
    cook.open_request(session)
    assert cook.json("12-clear.sh", session, exits=22)["code"] == "session_busy"
    cook.run("10-cancel.sh", session)
    wait_until(lambda: cook.json("10-cancel.sh", session) == {"cancelled": False})
    assert cook.run("12-clear.sh", session) == ""
    history = cook.json("11-messages.sh", session)
    assert "remember this" in json.dumps(history["messages"][0])
    assert cook.json("11-messages.sh", session, str(history["last_seq"]))["messages"] == []


def test_closed_session_is_gone_until_it_is_resumed(cook: Cook) -> None:
    session = cook.run("02-create-session.sh").strip()
    assert cook.run("14-close.sh", session) == ""
    assert cook.json("05-permissions.sh", session, exits=22)["code"] == "not_found"
    loaded, refused = cook.run("13-resume.sh", session, exits=22).splitlines()
    assert (json.loads(loaded)["id"], json.loads(refused)["code"]) == (session, "nothing_to_resume")
    cook.run("14-close.sh", session)


def test_request_is_open_again_after_the_server_was_killed(daemon: Daemon, cook: Cook) -> None:
    session = cook.run("02-create-session.sh").strip()
    cook.run("04-prompt.sh", session, "go")
    before = cook.open_request(session)
    daemon.restart()
    cook.env["AGENTCORE_URL"] = daemon.url
    loaded, resumed = cook.run("13-resume.sh", session).splitlines()
    assert (json.loads(loaded)["id"], json.loads(resumed)["session"]) == (session, session)
    after = cook.open_request(session)
    assert (after["request_id"], after["digest"]) == (before["request_id"], before["digest"])
    cook.run("06-answer.sh", session, after["request_id"], "allow", after["digest"])
