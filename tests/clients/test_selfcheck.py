"""`agentcore selfcheck` holds on a sound server, and each of its checks can fail."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore_selfcheck.checks import borders, confinement, flood, replay
from agentcore_selfcheck.checks.approval import approval
from agentcore_selfcheck.main import CHECKS, LIMIT_S
from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import Frame
from agentcore_selfcheck.verdicts import Broken, Missing

pytestmark = pytest.mark.anyio


def silent(what: str) -> None:
    """Nobody looks."""


def test_everything_holds_on_a_sound_server_and_the_exit_code_says_so() -> None:
    command = [sys.executable, "-m", "server.cli", "selfcheck"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S * len(CHECKS), check=False)
    lines = done.stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["held"] * len(CHECKS), done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def after_restart(monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]) -> None:
    """Change what is on disk between the kill and the start."""

    async def restart(server: Server) -> None:
        await server.kill()
        change(server.state / "data" / "sessions")
        await server.start()

    monkeypatch.setattr(Server, "restart", restart)


def lose_the_last_line(sessions: Path) -> None:
    for file in sessions.rglob("*.jsonl"):
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:-1]))


def lose_a_request(sessions: Path) -> None:
    for file in sessions.rglob("*.jsonl"):
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(line for line in lines if b'"permission_request"' not in line))


async def test_a_lost_request_breaks_the_promise_about_approvals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_restart(monkeypatch, lose_a_request)
    with pytest.raises(Broken):
        await approval(tmp_path / "a", silent)


async def test_lost_sessions_break_the_promise_about_approvals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_restart(monkeypatch, shutil.rmtree)
    with pytest.raises(Broken, match="was answered 404, not 201"):
        await approval(tmp_path / "a", silent)


async def test_a_lost_event_breaks_the_promise_about_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_PROMPTS", 2)
    monkeypatch.setattr(replay, "_CUTS", 1)
    monkeypatch.setattr("agentcore_selfcheck.talking.WAIT_S", 3.0)
    after_restart(monkeypatch, lose_the_last_line)
    with pytest.raises(Broken):
        await replay.replay(tmp_path / "a", silent)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([2, 3], "of 3 events 1 were missing, 0 came twice"),
        ([2, 3, 4, 4], "of 3 events 0 were missing, 1 came twice"),
        ([2, 4, 3], "of 3 events 0 were missing, 0 came twice"),
    ],
)
def test_what_is_missing_twice_or_out_of_order_is_counted(found: list[int], said: str) -> None:
    def frames(numbers: list[int]) -> list[Frame]:
        return [Frame(number, "x", b"{}") for number in numbers]

    with pytest.raises(Broken, match=said):
        replay._compare(frames([2, 3, 4]), frames(found))
    replay._compare(frames([2, 3, 4]), frames([2, 3, 4]))


@pytest.mark.parametrize("attack", borders._ATTACKS, ids=lambda attack: attack.name)
async def test_a_forged_request_that_is_answered_otherwise_breaks_the_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: borders._Attack
) -> None:
    wanted = borders._Attack(attack.name, (299,), attack.method, attack.path, attack.headers, attack.has_token)
    monkeypatch.setattr(borders, "_ATTACKS", (wanted,))
    with pytest.raises(Broken, match=attack.name):
        await borders.borders(tmp_path / "a", silent)


async def test_a_prompt_that_got_in_breaks_the_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = borders._Attack("the owner", (202,), headers={"Content-Type": "application/json"})
    monkeypatch.setattr(borders, "_ATTACKS", (honest,))
    with pytest.raises(Broken, match="a forged prompt reached the session"):
        await borders.borders(tmp_path / "a", silent)


async def test_memory_that_grows_breaks_the_promise_about_slow_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if flood._memory_mb(1) is None:
        pytest.skip("this system does not tell the memory of a process this way")
    monkeypatch.setattr(flood, "_MOST_MB", -1000)
    monkeypatch.setattr(flood, "_STALLED", 2)
    with pytest.raises(Broken, match="memory grew"):
        await flood.flood(tmp_path / "a", silent)


async def test_without_a_sandbox_it_says_so_and_holds_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCORE_SANDBOX_ENABLED", "false")
    monkeypatch.setattr("agentcore_selfcheck.server._INHERITED", ("PATH", "AGENTCORE_SANDBOX_ENABLED"))
    with pytest.raises(Missing, match="switched off"):
        await confinement.confinement(tmp_path / "a", silent)


SOUND = {"inside": "fine tried", "key": "no such file tried", "token": "no such file tried"}


@pytest.mark.parametrize("left", ["out.txt", "home/out.txt", "work/.git/hooks/pre-commit"])
def test_what_a_command_left_outside_breaks_the_promise(tmp_path: Path, left: str) -> None:
    confinement._judge(tmp_path, SOUND, 0)
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).touch()
    with pytest.raises(Broken):
        confinement._judge(tmp_path, SOUND, 0)


@pytest.mark.parametrize(
    ("said", "visits"),
    [
        ({"inside": "denied tried"}, 0),
        ({"key": f"{confinement._SECRET} tried"}, 0),
        ({"token": '{"token": "x"} tried'}, 0),
        ({"key": "it never began"}, 0),
        ({}, 1),
    ],
)
def test_what_a_command_saw_or_reached_breaks_the_promise(tmp_path: Path, said: dict[str, str], visits: int) -> None:
    with pytest.raises(Broken):
        confinement._judge(tmp_path, SOUND | said, visits)
