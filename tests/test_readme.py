"""What the README tells people to paste works as pasted."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.daemon import WAIT_S, Daemon

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
RUN, SECOND_TERMINAL, THIRD_TERMINAL, AFTER_A_KILL, SELFCHECK, TEST, HEADLESS = BLOCKS


def environment(daemon: Daemon) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH",)}
    return {**kept, "HOME": str(daemon.root / "home"), "AGENTCORE_STATE_DIR": str(daemon.state_dir)}


def test_the_commands_are_the_ones_that_everything_else_calls() -> None:
    assert "pip install -q . && .venv/bin/agentcore serve" in RUN
    assert SELFCHECK.strip() == ".venv/bin/agentcore selfcheck"  # tried by tests/clients/test_selfcheck.py
    assert TEST.strip() in (ROOT / ".ci" / "run").read_text()
    assert (ROOT / "README.md").read_text().index("agentcore serve") < 700


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the recipe is written for bash")
def test_the_recipe_goes_from_a_session_to_the_answer(daemon: Daemon) -> None:
    """Two terminals: the first follows the stream while the second answers."""
    first = subprocess.Popen(
        ["/bin/bash", "-c", SECOND_TERMINAL + "\nwait"],
        cwd=ROOT,
        env=environment(daemon),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert first.stdout is not None
    try:
        lines = iter(first.stdout.readline, "")
        seen = [next(line for line in lines if line.startswith("event: permission_request"))]
        second = subprocess.run(
            ["/bin/bash", "-c", THIRD_TERMINAL],
            cwd=ROOT,
            env=environment(daemon),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        assert '"request_id":"perm-1"' in second.stdout
        assert second.stderr == ""
        for line in lines:
            seen.append(line)
            if line.startswith('data: {"type":"status"') and '"busy":false' in line:
                break
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    events = [line.removeprefix("event: ").strip() for line in seen if line.startswith("event: ")]
    assert [event for event in events if event.startswith("permission")] == [
        "permission_request",
        "permission_resolved",
    ]
    assert events[-2:] == ["done", "status"]
    assert '"stop_reason":"end_turn"' in "".join(seen)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the recipe is written for bash")
def test_the_experiment_with_the_kill_ends_well(daemon: Daemon) -> None:
    with httpx.Client(base_url=daemon.url, headers={"Authorization": f"Bearer {daemon.token}"}) as http:
        session = http.post("/v1/sessions", json={"mode": "accept-edits"}).json()["id"]
        for request in ("perm-1", "perm-2"):
            http.post(f"/v1/sessions/{session}/prompt", json={"text": "Show me."})
            wait_until(lambda: http.get(f"/v1/sessions/{session}/permissions").json()["permissions"])
            if request == "perm-1":
                http.post(f"/v1/sessions/{session}/permissions/{request}", json={"allow": True})
                wait_until(lambda: not http.get(f"/v1/sessions/{session}").json()["busy"])
    daemon.restart()
    connect = "".join(THIRD_TERMINAL.splitlines(keepends=True)[:2])
    ran = subprocess.run(
        ["/bin/bash", "-c", connect + AFTER_A_KILL],
        cwd=ROOT,
        env=environment(daemon),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert '"interrupted":true' in ran.stdout
    assert ran.stderr == ""
    wait_until(lambda: [event["type"] for event in daemon.events(session)][-2:] == ["done", "status"])
    assert daemon.events(session)[-2]["stop_reason"] == "end_turn"


def wait_until(holds: Callable[[], object]) -> None:
    """Ask again and again, for a bounded time: what is waited for happens in another process."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_headless_command_prints_the_answer_of_the_model_that_is_there(tmp_path: Path) -> None:
    config = tmp_path / "config" / "agentcore"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text('model = "scripted/demo"')
    ran = subprocess.run(
        ["/bin/sh", "-c", HEADLESS.replace(".venv/bin/agentcore", "agentcore")],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **homes(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '{"type":"done"' in ran.stdout


def homes(root: Path) -> dict[str, str]:
    return {"HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")}
