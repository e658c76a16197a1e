"""What the server writes to stderr: text for people, or with AGENTCORE_LOG=json one object a line; with ids, and
without what was said."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agentcore_client.client import Client
from tests.daemon import TOKEN, WAIT_S, Daemon, running

STORY = {"turns": [{"text": "Look.", "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "An answer."}]}
FAILS = {"turns": [{"error": {"kind": "quota", "message": "No credit left."}}]}
WARNING = "the trace of a session cannot be written and ends here"


def told(root: Path, *arguments: str, **environment: str) -> tuple[str, str, str]:
    """What a server logs about a session whose trace cannot be written; the ids of session and run."""
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json", *arguments, **environment) as daemon:
        with Client(daemon.url, daemon.token) as client:
            session = client.create_session(trace=True)
            next(daemon.state_dir.rglob(session.id)).joinpath("trace.jsonl").mkdir()
            assert session.prompt_and_wait("a secret prompt").text == "An answer."
        _read_with_ticket(daemon, session.id)
        [run] = {event["run_id"] for event in daemon.events(session.id) if event["type"] == "done"}
        assert daemon.process is not None
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_S) == 0
        return daemon.log(), session.id, run


def _read_with_ticket(daemon: Daemon, session: str) -> None:
    """Once with a good ticket, and once with none."""
    with httpx.Client(base_url=daemon.url) as http:
        ticket = http.post("/v1/stream-tickets", headers={"Authorization": f"Bearer {TOKEN}"}).json()["ticket"]
        statuses = []
        for _ in range(2):
            with http.stream("GET", f"/v1/sessions/{session}/events?ticket={ticket}") as answer:
                statuses.append(answer.status_code)
    assert statuses == [200, 401]


@pytest.mark.parametrize("arguments", [(), ("--debug",)])
def test_as_json_every_line_is_an_object_with_the_ids_of_session_and_run(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    log, session, run = told(tmp_path, *arguments, AGENTCORE_LOG="json")
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"ts", "level", "logger", "message"} <= line.keys() for line in lines)
    [warning] = [line for line in lines if line["message"] == WARNING]
    assert "Traceback" in warning.pop("traceback")
    assert isinstance(warning.pop("ts"), float)
    assert warning == {
        "level": "WARNING",
        "logger": "agentcore.tracing.recorder",
        "message": WARNING,
        "session": session,
        "run": run,
    }
    of_people = [line["message"] for line in lines if line["logger"] == "server.people"]
    assert (of_people[0].split()[0], of_people[-1]) == ("agentcore", "agentcore has stopped")
    assert "session" not in lines[0]
    no_content(log)


def test_as_text_a_line_names_its_session(tmp_path: Path) -> None:
    log, session, _ = told(tmp_path, "--debug")
    assert f"WARNING agentcore.tracing.recorder [{session}]: {WARNING}\nTraceback " in log
    assert log.splitlines()[0].startswith("agentcore ")
    assert log.splitlines()[-1] == "agentcore has stopped"
    no_content(log)


def no_content(log: str) -> None:
    for said in ("a secret prompt", "An answer.", TOKEN, "ticket="):
        assert said not in log


def headless(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    daemon = Daemon(root)
    model = daemon.script("fails", FAILS)
    command = [sys.executable, "-m", "server.cli", "run", "--model", model, "--state-dir", str(daemon.state_dir)]
    return subprocess.run(
        [*command, "-p", "go"],
        cwd=daemon.cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(root), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_run_without_a_server_says_it_the_same_way(tmp_path: Path) -> None:
    as_text, as_json = headless(tmp_path), headless(tmp_path, AGENTCORE_LOG="json")
    assert (as_text.returncode, as_json.returncode) == (1, 1)
    assert as_text.stderr == "agentcore: No credit left.\n"
    [line] = [json.loads(line) for line in as_json.stderr.splitlines()]
    assert (line["logger"], line["message"]) == ("server.people", "No credit left.")


def test_an_unknown_form_of_the_log_is_refused(tmp_path: Path) -> None:
    ran = headless(tmp_path, AGENTCORE_LOG="xml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "agentcore: AGENTCORE_LOG is neither text nor json; set it to one of them, or leave it out.\n"
