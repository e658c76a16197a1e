"""Every recipe of the curl cookbook, run by a shell against a real server.

The server plays the built-in demo, which asks for a permission before it writes, edits, and runs a command; so every
story has its requests.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio import fail_after, to_thread

from server import discovery
from server.discovery import Running
from tests.daemon import COMMAND, Daemon, running
from tests.pictures import picture
from tests.zombies import ended

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
        return self.finish(recipe, *arguments, exits=exits).stdout

    def finish(self, recipe: str, *arguments: str, exits: int = 0) -> subprocess.CompletedProcess[str]:
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
        return result

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


def told_usage(recipe: Path) -> tuple[str, int]:
    """The line that says how to call it, and how many arguments it cannot do without."""
    line = next(line for line in recipe.read_text().splitlines() if re.match(rf"#   (.*\()?sh {recipe.name}", line))
    usage = line[line.index(f"sh {recipe.name}") :].split(" >>")[0]
    return usage, len(usage.split("[")[0].split()) - 2


NEEDY = [path for path in sorted(COOKBOOK.glob("*.sh")) if "usage: " in path.read_text()]


@in_both_shells
@pytest.mark.parametrize("recipe", NEEDY, ids=lambda recipe: recipe.name)
def test_without_its_arguments_a_recipe_says_how_it_is_called(cook: Cook, recipe: Path) -> None:
    usage, needed = told_usage(recipe)
    told = cook.finish(recipe.name, *["x"] * (needed - 1), exits=2)
    assert told.stdout == ""
    assert told.stderr.startswith(f"usage: {usage}")


def test_recipes_that_need_arguments_are_those_with_a_usage() -> None:
    silent = [path for path in COOKBOOK.glob("*.sh") if path not in NEEDY and "#   sh " in path.read_text()]
    assert [path.name for path in silent if told_usage(path)[1]] == []
    assert len(NEEDY) > 15


@pytest.mark.parametrize("arguments", [("24-export.sh", "latest", "json"), ("36-trace.sh", "latest")])
def test_a_file_in_a_folder_that_there_is_not_is_a_sentence(cook: Cook, arguments: tuple[str, ...]) -> None:
    told = cook.finish(*arguments, "no/such/file", exits=2)
    assert (told.stdout, told.stderr) == ("", "There is no folder no/such.\n")


def test_an_answer_for_a_subagent_is_all_or_nothing(cook: Cook) -> None:
    assert cook.finish("35-subagents.sh", "latest", "perm-1", exits=2).stderr.startswith("usage: sh 35-subagents.sh")


def test_a_cursor_that_is_none_is_said_in_words(cook: Cook, tmp_path: Path) -> None:
    (tmp_path / "cursor").write_text("nonsense")
    told = json.loads(cook.finish("31-all-events.sh", str(tmp_path / "cursor"), exits=1).stderr)
    assert told["error"].endswith(
        '"after" is no cursor: send the last `id` of this stream as it came, or leave it out.'
    )
    (tmp_path / "number").write_text("nonsense")
    told = json.loads(cook.finish("08-reconnect.sh", "latest", str(tmp_path / "number"), exits=1).stderr)
    assert "is no number of an event: send the last `id` of the stream" in told["error"]


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


@pytest.fixture
def neighbours(tmp_path: Path) -> Iterator["Neighbours"]:
    with subprocess.Popen(["sleep", "600"]) as older, subprocess.Popen(["sleep", "600"]) as younger:
        yield Neighbours(tmp_path, older.pid, younger.pid)
        older.kill()
        younger.kill()


@dataclass
class Neighbours:
    """The files of two servers, as those write them; the processes behind are none."""

    root: Path
    older: int
    younger: int

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    def publish(self, pid: int, *roots: Path, url: str = "") -> Path:
        named = [str(root) for root in roots]
        server = Running(url or f"http://127.0.0.1:{pid}", f"token-of-{pid}", pid, "1", named[0], tuple(named))
        path = discovery.publish(self.state_dir, server)
        os.utime(path, (pid == self.younger, pid == self.younger))
        return path

    def cook(self, here: Path, shell: str = "sh") -> Cook:
        here.mkdir(parents=True, exist_ok=True)
        cook = Cook("", "", here, shell)
        cook.env["AGENTCORE_STATE_DIR"] = str(self.state_dir)
        return cook


def connected(pid: int) -> list[str]:
    return [f"export AGENTCORE_URL='http://127.0.0.1:{pid}'", f"export AGENTCORE_TOKEN='token-of-{pid}'"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("here", "older", "younger", "chosen"),
    [
        ("a", ["a"], ["b"], "older"),
        ("a/deep", ["b", "a", "c"], ["d"], "older"),
        ("a", ["b"], ["c"], "younger"),
        ("a", ["a"], ["a"], "younger"),
        ("a/deep", ["a/deep"], ["a"], "older"),
        ("a", ["a"], ["a/deep"], "older"),
        ("ab", ["."], ["a"], "older"),
        ("a", ["a"], ["/"], "older"),
        ("a", ["/"], ["b"], "older"),
        ('\u00fc "x", [y] & \\ z', ["b", '\u00fc "x", [y] & \\ z'], ["c"], "older"),
    ],
)
def test_connect_prefers_the_server_of_this_folder(
    neighbours: Neighbours, shell: str, here: str, older: list[str], younger: list[str], chosen: str
) -> None:
    work = neighbours.root / "work"
    neighbours.publish(neighbours.older, *[work / root for root in older])
    neighbours.publish(neighbours.younger, *[work / root for root in younger])
    lines = neighbours.cook(work / here, shell).run("00-connect.sh").splitlines()
    assert lines == connected(getattr(neighbours, chosen))


@pytest.mark.parametrize("has_folder", [False, True])
def test_connect_says_when_there_is_none(neighbours: Neighbours, has_folder: bool) -> None:
    if has_folder:
        (neighbours.state_dir / "servers").mkdir(parents=True)
    refused = neighbours.cook(neighbours.root).finish("00-connect.sh", "0", exits=1)
    assert (refused.stdout, refused.stderr.split(".")[0]) == ("", "No server is running")
    assert refused.stderr.count("\n") == 1


def test_connect_passes_over_a_process_that_has_ended_and_was_not_waited_for(neighbours: Neighbours) -> None:
    with ended() as zombie:
        neighbours.publish(zombie, neighbours.root)
        neighbours.cook(neighbours.root).run("00-connect.sh", "0", exits=1)


def test_connect_leaves_a_unix_socket_to_the_user(neighbours: Neighbours) -> None:
    socket = neighbours.root / "my socket"
    neighbours.publish(neighbours.younger, neighbours.root, url=f"http+unix://{quote(str(socket), safe='')}")
    cook = neighbours.cook(neighbours.root)
    refused = cook.finish("00-connect.sh", exits=1)
    assert refused.stdout == ""
    assert f"--unix-socket '{socket}'" in refused.stderr
    neighbours.publish(neighbours.older, neighbours.root / "elsewhere")
    assert cook.run("00-connect.sh").splitlines() == connected(neighbours.older)


@pytest.mark.parametrize(("comes_after", "exits"), [(2, 0), (4, 1)])
def test_connect_waits_a_bounded_time_for_a_server_that_starts(
    neighbours: Neighbours, comes_after: int, exits: int
) -> None:
    """Its `sleep` is ours: it counts, and the server is there after so many."""
    published = neighbours.publish(neighbours.older, neighbours.root)
    ready = published.rename(neighbours.root / "ready.json")
    cook = neighbours.cook(neighbours.root / "bin")
    (neighbours.root / "bin" / "sleep").write_text(
        f'#!/bin/sh\necho >>slept\n[ $(wc -l <slept) -lt {comes_after} ] || cp "{ready}" "{published}"\n'
    )
    (neighbours.root / "bin" / "sleep").chmod(0o700)
    cook.env["PATH"] = f"{neighbours.root / 'bin'}:{os.environ['PATH']}"
    assert cook.run("00-connect.sh", "3", exits=exits).splitlines() == ([] if exits else connected(neighbours.older))
    assert (neighbours.root / "bin" / "slept").read_text() == "\n" * min(comes_after, 3)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="`kill %1` in a script is bash's")
def test_the_first_block_of_the_readme_works_when_pasted_in_one_go(tmp_path: Path) -> None:
    [block] = re.findall(r"```sh\n(.*?)```", (COOKBOOK / "README.md").read_text(), re.DOTALL)
    shutil.copytree(COOKBOOK, tmp_path / "clients" / "curl")
    with subprocess.Popen(
        ["/bin/bash", "-c", f"{block}\nkill %1; wait"],
        cwd=tmp_path,
        env={"PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, complaints = shell.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert '"request_id":"perm-1"' in said, complaints
    assert "show me what you can do" in said.splitlines()[-1]
    assert "curl:" not in complaints


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


def test_a_prompt_waits_in_the_queue_and_a_steering_one_goes_to_the_run(cook: Cook, session: str) -> None:
    cook.run("04-prompt.sh", session, "go")
    cook.open_request(session)
    accepted, queue = map(json.loads, cook.run("19-queue.sh", session, 'say "later"').splitlines())
    assert accepted["disposition"] == "queued"
    assert [(one["prompt_id"], one["text"]) for one in queue["queue"]] == [(accepted["prompt_id"], 'say "later"')]
    assert cook.json("20-steer.sh", session, "look left")["disposition"] == "steering"
    assert cook.json("20-steer.sh", session, "instead", "interrupt")["disposition"] == "started"
    wait_until(lambda: "instead" in json.dumps(cook.json("11-messages.sh", session)))


def test_a_suspended_run_goes_on_with_its_answer(cook: Cook, session: str) -> None:
    assert cook.json("21-suspend.sh", session) == {"suspending": False}
    cook.run("04-prompt.sh", session, "go")
    cook.open_request(session)
    assert cook.json("21-suspend.sh", session) == {"suspending": True}
    wait_until(lambda: cook.json("21-suspend.sh", session) == {"suspending": False})
    request = cook.open_request(session)["request_id"]
    cook.run("06-answer.sh", session, request, "deny")
    wait_until(lambda: cook.open_request(session)["request_id"] != request)


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


def test_a_summary_takes_the_place_of_the_conversation(cook: Cook, session: str) -> None:
    assert cook.json("18-compact.sh", session, exits=22)["code"] == "unprocessable"  # there is nothing yet
    cook.run("04-prompt.sh", session, "remember this")
    cook.open_request(session)
    assert cook.json("18-compact.sh", session, exits=22)["code"] == "session_busy"
    cook.run("10-cancel.sh", session)
    wait_until(lambda: cook.json("10-cancel.sh", session) == {"cancelled": False})
    assert "remember this" in cook.json("18-compact.sh", session)["summary"]
    assert "remember this" in json.dumps(cook.json("11-messages.sh", session)["messages"][0])


def test_what_a_run_did_to_files_is_taken_back(cook: Cook, session: str, tmp_path: Path) -> None:
    assert cook.json("26-undo.sh", session, exits=22)["code"] == "nothing_to_undo"
    cook.run("04-prompt.sh", session, "show me")
    first = cook.open_request(session)["request_id"]
    cook.run("06-answer.sh", session, first, "allow")
    wait_until(lambda: cook.open_request(session)["request_id"] != first)
    assert cook.json("26-undo.sh", session, exits=22)["code"] == "session_busy"
    cook.run("10-cancel.sh", session)
    wait_until(lambda: cook.json("10-cancel.sh", session) == {"cancelled": False})
    planned = cook.json("26-undo.sh", session, "dry")
    assert planned["deleted"]
    assert cook.json("26-undo.sh", session) == planned
    assert cook.json("26-undo.sh", session, exits=22)["code"] == "nothing_to_undo"


@in_both_shells
@pytest.mark.parametrize("size", [None, (9, 7)])
def test_image_is_uploaded_and_shown(cook: Cook, session: str, tmp_path: Path, size: tuple[int, int] | None) -> None:
    mine = tmp_path / "mine.png"
    mine.write_bytes(picture(size=size or (1, 1)))
    accepted = cook.json("16-image.sh", session, 'What "is" this?', *([str(mine)] if size else []))
    assert accepted["disposition"] == "started"
    cook.open_request(session)
    image, text = cook.json("11-messages.sh", session)["messages"][0]["content"]
    assert (image["type"], (image["width"], image["height"])) == ("image", size or (1, 1))
    assert text == {"type": "text", "text": 'What "is" this?'}


def test_image_that_is_none_is_refused_with_the_reason(cook: Cook, session: str, tmp_path: Path) -> None:
    (tmp_path / "none.png").write_bytes(b"no picture")
    refused = cook.json("16-image.sh", session, "x", str(tmp_path / "none.png"), exits=22)
    assert refused["code"] == "unprocessable"
    assert cook.json("11-messages.sh", session)["messages"] == []


@in_both_shells
def test_an_answer_of_a_given_form_comes_checked(cook: Cook, session: str) -> None:
    done = cook.json("17-structured.sh", session, 'a "structured" list')
    assert done["structured"] == {"title": "Shopping list", "items": ["apples", "bread"]}
    refused = cook.json("17-structured.sh", session, "structured", '{"type": "array"}', exits=22)
    assert refused["code"] == "bad_request"


@in_both_shells
def test_a_prompt_under_a_key_runs_once(cook: Cook, session: str) -> None:
    first = cook.finish("22-idempotent-prompt.sh", session, 'say "it" once')
    key = first.stderr.strip().removeprefix("Idempotency-Key: ")
    assert cook.run("22-idempotent-prompt.sh", session, 'say "it" once', key) == first.stdout
    refused = cook.json("22-idempotent-prompt.sh", session, "something else", key, exits=22)
    assert refused["code"] == "unprocessable"


def test_a_fork_is_taken_back_to_a_prompt_and_exported(cook: Cook, session: str, tmp_path: Path) -> None:
    cook.run("04-prompt.sh", session, "remember this")
    cook.open_request(session)
    assert cook.json("23-fork.sh", session, exits=22)["code"] == "session_busy"
    cook.run("10-cancel.sh", session)
    wait_until(lambda: cook.json("10-cancel.sh", session) == {"cancelled": False})
    back = cook.json("23-fork.sh", session, "0")
    copy = cook.json("23-fork.sh", session)
    assert (back["prompt"], back["fork_of"], copy["fork_of"]) == ("remember this", session, session)
    saved = str(tmp_path / "saved.md")
    assert cook.run("24-export.sh", copy["id"], "markdown", saved).strip() == saved
    assert "## User\n\nremember this\n" in Path(saved).read_text()
    assert cook.json("24-export.sh", session, "pdf", saved, exits=22)["code"] == "bad_request"
    assert [path.name for path in tmp_path.glob("saved*")] == ["saved.md"]
    for forked in (back, copy):
        cook.run("14-close.sh", forked["id"])


def test_what_happened_is_saved_as_a_page(cook: Cook, session: str, tmp_path: Path) -> None:
    cook.run("04-prompt.sh", session, "remember this")
    cook.open_request(session)
    saved = str(tmp_path / "saved.html")
    assert cook.run("36-trace.sh", session, saved).strip() == saved
    assert "remember this" in Path(saved).read_text()
    assert Path(saved).stat().st_mode & 0o777 == 0o600
    assert cook.json("36-trace.sh", "nobody", saved, exits=22)["code"] == "not_found"


@contextmanager
def receiver() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The one of the cookbook, and its address."""
    command = [sys.executable, str(COOKBOOK / "webhook_receiver.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process
        finally:
            process.kill()


def test_a_webhook_hears_of_each_request_once_and_of_nothing_else(daemon: Daemon, cook: Cook) -> None:
    with receiver() as (url, process):
        daemon.configure(cook.run("37-webhook.sh", url))
        sessions = [cook.run("02-create-session.sh").strip() for _ in range(2)]
        cook.run("17-structured.sh", sessions[0], "structured")  # needs nobody
        expected = []
        for session in sessions:  # what the first one tells besides would come before what the second one does
            cook.run("04-prompt.sh", session, "go")
            asked = cook.open_request(session)
            expected.append(f"permission_prompt: session {session} in {daemon.cwd}: {asked['tool_name']} needs your")
            assert process.stdout is not None
            assert process.stdout.readline() == f"{expected[-1]} permission\n"
            cook.run("10-cancel.sh", session)
            cook.run("14-close.sh", session)
        process.kill()
        assert process.stdout.read() == ""
    cook.run("37-webhook.sh", 'http://x/"', exits=2)


def test_a_session_is_taken_over_from_another_server(daemon: Daemon, tmp_path: Path) -> None:
    here = Cook(daemon.url, daemon.token, daemon.cwd)
    session = here.run("02-create-session.sh").strip()
    with running(tmp_path, *daemon.arguments) as other:
        there = Cook(other.url, other.token, other.cwd)
        assert there.run("13-resume.sh", session, exits=22).count("session_locked") == 1
        assert there.json("25-takeover.sh", session)["id"] == session
        assert here.json("05-permissions.sh", session, exits=22)["code"] == "not_found"


def test_what_was_allowed_for_good_is_listed_and_taken_back(cook: Cook, session: str) -> None:
    before = cook.json("27-rules.sh")["rules"]
    cook.run("04-prompt.sh", session, "go")
    request = cook.open_request(session)
    cook.run("06-answer.sh", session, request["request_id"], "always")
    [rule] = [one for one in cook.json("27-rules.sh")["rules"] if one not in before]
    assert (rule["rule"], rule["scope"]) == (request["suggested_rules"][0], "session")
    assert cook.run("27-rules.sh", rule["id"]) == ""
    assert cook.json("27-rules.sh")["rules"] == before
    assert cook.json("27-rules.sh", rule["id"], exits=22)["code"] == "not_found"


def test_what_a_repository_wants_to_run_waits_for_a_word(cook: Cook, daemon: Daemon) -> None:
    assert cook.json("29-approvals.sh") == {"approvals": []}
    (daemon.cwd / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    [server] = cook.json("29-approvals.sh")["approvals"]
    assert (server["name"], server["state"]) == ("files", "waiting")
    assert cook.run("29-approvals.sh", server["id"], "allow") == ""
    [server] = cook.json("29-approvals.sh")["approvals"]
    assert server["state"] == "allowed"
    assert cook.json("29-approvals.sh", "none", "deny", exits=22)["code"] == "not_found"


@in_both_shells
def test_a_limit_that_is_reached_asks_and_is_raised(cook: Cook, session: str) -> None:
    assert cook.json("30-budget.sh", session)["budget"]["limits"] == {}
    set_to = cook.json("30-budget.sh", session, "tokens", "1")["budget"]
    assert (set_to["limits"], set_to["used"]["tokens"]) == ({"tokens": 1}, 0)
    assert cook.json("30-budget.sh", session, "usd", "-1", exits=22)["code"] == "bad_request"
    cook.run("30-budget.sh", session, "dollars", "1", exits=2)
    cook.run("04-prompt.sh", session, "go")
    request = cook.open_request(session)
    assert (request["kind"], request["input"]["limit"]) == ("budget", "tokens")
    assert cook.json("30-budget.sh", session, "tokens", "null")["budget"]["limits"] == {}
    wait_until(lambda: cook.open_request(session)["kind"] == "tool")


@in_both_shells
def test_all_sessions_are_followed_on_one_connection_and_a_cursor_goes_on(
    daemon: Daemon, cook: Cook, session: str
) -> None:
    cursor = str(daemon.root / "cursor")
    with cook.running("31-all-events.sh", cursor) as output:
        other = cook.run("02-create-session.sh").strip()
        cook.run("04-prompt.sh", session, "go")
        lines = read_until(output, lambda line: '"permission_request"' in line)
        snapshots = [json.loads(line)["session"]["id"] for line in lines if '"type":"snapshot"' in line]
        assert set(snapshots) <= {session, other}
        wait_until(lambda: f"{session}:" in Path(cursor).read_text())
    at = dict(place.split(":") for place in Path(cursor).read_text().strip().split(","))
    request = cook.open_request(session)
    cook.run("06-answer.sh", session, request["request_id"], "deny")
    with cook.running("31-all-events.sh", cursor, session) as output:
        lines = read_until(output, lambda line: '"permission_resolved"' in line)
    numbers = [json.loads(line).get("seq", 0) for line in lines]
    assert numbers == [0, *range(int(at[session]) + 1, numbers[-1] + 1)]
    cook.run("14-close.sh", other)
    (daemon.root / "broken").write_text("no-cursor")
    assert "bad_request" in cook.finish("31-all-events.sh", str(daemon.root / "broken"), exits=1).stderr


@in_both_shells
def test_only_the_events_that_were_chosen_come(cook: Cook, session: str) -> None:
    cook.run("04-prompt.sh", session, "go")
    cook.open_request(session)
    with cook.running("32-choose-events.sh", session, "permission_request,text_delta", "final") as output:
        lines = read_until(output, lambda line: line.startswith("id: ") and ":" not in line[4:] and line != "id: 0")
        lines += read_until(output, lambda line: line.startswith("data: "))
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert events == ["snapshot", "permission_request"]
    refused = cook.json("32-choose-events.sh", session, "permision_request", exits=22)
    assert (refused["code"], "permission_request" in refused["error"]) == ("bad_request", True)
    assert "('permision_request' is none)" in refused["error"]


@in_both_shells
def test_why_a_session_is_not_moving(cook: Cook, session: str) -> None:
    assert cook.json("33-why.sh", session)["waiting_for"] == "nothing"
    cook.run("04-prompt.sh", session, "go")
    request = cook.open_request(session)
    why = cook.json("33-why.sh")
    assert (why["state"], why["waiting_for"]) == ("running", "permission")
    assert [one["request_id"] for one in why["detail"]["requests"]] == [request["request_id"]]


def test_what_goes_on_in_the_background_is_listed_and_ended(cook: Cook, daemon: Daemon) -> None:
    command = {"command": "sleep 60", "description": "Wait a minute", "run_in_background": True}
    model = daemon.script(
        "tasks", {"turns": [{"tool_calls": [{"name": "bash", "input": command}]}, {"text": "Begun."}]}
    )
    answer = httpx.post(
        f"{daemon.url}/v1/sessions",
        json={"model": model},
        headers={"Authorization": f"Bearer {daemon.token}"},
        trust_env=False,
    )
    session = answer.json()["id"]
    assert cook.json("34-tasks.sh", session) == {"tasks": []}
    cook.run("04-prompt.sh", session, "go")
    cook.run("06-answer.sh", session, cook.open_request(session)["request_id"], "allow")
    [task] = wait_until(lambda: cook.json("34-tasks.sh", session)["tasks"])
    assert (task["task_id"], task["label"], task["state"]) == ("bg-1", "Wait a minute", "running")
    assert cook.run("34-tasks.sh", session, "bg-1") == ""
    [task] = cook.json("34-tasks.sh", session)["tasks"]
    assert (task["state"], task["result"]) == ("stopped", "[stopped before it was done]")
    assert cook.json("34-tasks.sh", session, "bg-2", exits=22)["code"] == "not_found"
    cook.run("14-close.sh", session)


def test_the_questions_of_two_subagents_are_told_apart_and_answered(cook: Cook, daemon: Daemon) -> None:
    fruits = {"question": "Which fruit?", "header": "Fruit", "options": [{"label": "apples"}, {"label": "pears"}]}
    begins = [
        {"name": "task", "input": {"description": "ask", "prompt": f"ask {number}", "subagent_type": "general-purpose"}}
        for number in (1, 2)
    ]
    asks = [{"tool_calls": [{"name": "ask_user", "input": {"questions": [fruits]}}]}, {"text": "Thank you."}]
    scenes = [{"match": "begin", "turns": [{"tool_calls": begins}, {"text": "Done."}]}, {"turns": asks}]
    model = daemon.script("subagents", {"scenes": scenes})
    headers = {"Authorization": f"Bearer {daemon.token}"}
    created = httpx.post(f"{daemon.url}/v1/sessions", json={"model": model}, headers=headers, trust_env=False)
    session = created.json()["id"]
    cook.run("04-prompt.sh", session, "begin")
    asked = wait_until(lambda: len(found := cook.json("35-subagents.sh", session)["permissions"]) == 2 and found)
    assert {(one["kind"], one["agent"]) for one in asked} == {
        ("question", "general-purpose-1"),
        ("question", "general-purpose-2"),
    }
    for request in reversed(asked):
        assert cook.run("35-subagents.sh", session, request["request_id"], '"pears"') == ""
    assert wait_until(lambda: "Thank you." in json.dumps(cook.json("11-messages.sh", session)["messages"][2:]))


def test_a_question_is_answered_with_one_of_its_options(cook: Cook, session: str) -> None:
    cook.run("04-prompt.sh", session, "ask me a question")
    request = cook.open_request(session)
    assert (request["kind"], request["options"]) == ("question", ["apples", "pears"])
    refused = cook.json("28-question.sh", session, request["request_id"], '"plums"', exits=22)
    assert (refused["code"], "'apples', 'pears'" in refused["error"]) == ("unprocessable", True)
    assert cook.json("06-answer.sh", session, request["request_id"], "allow", exits=22)["code"] == "bad_request"
    assert cook.run("28-question.sh", session, request["request_id"], '"pears"') == ""
    assert wait_until(lambda: "pears" in json.dumps(cook.json("11-messages.sh", session)["messages"][2:]))


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
