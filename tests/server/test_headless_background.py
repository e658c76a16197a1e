"""`agentcore run` and what goes on in the background: it is waited for, and told, and Ctrl-C ends it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentcore.events import EVENTS, NumberedEvent
from tests.crash.stories import check_journal, of_kind
from tests.daemon import COMMAND
from tests.server.test_models_command import write_settings
from tests.server.test_tasks_http import is_alive

BUILD = {"command": "echo $$ > pid; cat gate; echo built", "description": "Build it", "run_in_background": True}
LOOK = {"description": "Look", "prompt": "look around", "subagent_type": "explore", "run_in_background": True}


def story(name: str, input: dict[str, Any], *turns: dict[str, Any]) -> dict[str, Any]:
    calls = {"turns": [{"tool_calls": [{"name": name, "input": input}]}, *turns]}
    subagent = {"match": "look around", "turns": [{"text": "Nothing there."}]}
    return {"scenes": [subagent, {"match": "go", **calls}]}


@contextmanager
def begun(
    root: Path, script: dict[str, Any], *arguments: str, command: Sequence[object] = (COMMAND,)
) -> Iterator["subprocess.Popen[str]"]:
    work = root / "work"
    work.mkdir()
    os.mkfifo(work / "gate")
    (work / "script.json").write_text(json.dumps(script))
    write_settings(root, "[sandbox]\nenabled = false\n")  # in there a process does not know its number
    own = {"HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")}
    given = ["--model", "scripted/script.json", "--mode", "yolo", "--allow-yolo", "--state-dir", str(root / "state")]
    with subprocess.Popen(
        [*map(str, command), "run", "-p", "go", *given, *arguments],
        cwd=work,
        env={**own, "PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_waiting(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if "waiting for" in line)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=30)
    return process.returncode, out, errors


def let_go(root: Path) -> None:
    os.close(os.open(root / "work" / "gate", os.O_WRONLY))


def journal(root: Path) -> Sequence[dict[str, Any]]:
    [path] = (root / "state").rglob("journal.jsonl")
    return check_journal(path.read_bytes())


@pytest.mark.parametrize(
    ("last", "code", "told"),
    [
        ({"text": "It is built."}, 0, ""),
        ({"text": "No.", "stop": "refusal"}, 3, "agentcore: the run ended early: refusal\n"),
        ({"error": {"kind": "auth", "message": "No key."}}, 1, "agentcore: No key.\n"),
    ],
)
def test_what_goes_on_in_the_background_is_waited_for_and_the_last_run_tells_the_exit_code(
    tmp_path: Path, last: dict[str, Any], code: int, told: str
) -> None:
    with begun(tmp_path, story("bash", BUILD, {"text": "It builds."}, last)) as process:
        said = until_waiting(process)
        assert process.stdout is not None
        first = process.stdout.readline()
        let_go(tmp_path)
        returned, out, errors = ended(process)
    assert said == "agentcore: waiting for what goes on in the background: bg-1 (Build it); Ctrl-C ends it\n"
    assert first == "It builds.\n"
    assert (returned, out) == (code, f"{last['text']}\n" if "text" in last else "")
    assert told in errors
    messages = of_kind(journal(tmp_path), "user_message")
    assert [message["source"] for message in messages] == ["prompt", "notification"]


def test_a_subagent_in_the_background_is_waited_for(tmp_path: Path) -> None:
    with begun(tmp_path, story("task", LOOK, {"text": "It looks."}, {"text": "It found nothing."})) as process:
        code, out, _ = ended(process)
    assert (code, out.splitlines()[-1]) == (0, "It found nothing.")
    [ending] = [event for event in of_kind(journal(tmp_path), "task_update") if event["state"] != "running"]
    assert (ending["state"], ending["result"]) == ("completed", "Nothing there.")


def test_with_json_the_events_come_until_all_is_told(tmp_path: Path) -> None:
    script = story("bash", BUILD, {"text": "It builds."}, {"text": "It is built."})
    with begun(tmp_path, script, "--output", "json") as process:
        until_waiting(process)
        let_go(tmp_path)
        code, out, _ = ended(process)
    events: list[NumberedEvent] = [EVENTS.validate_json(line) for line in out.splitlines()]
    assert [event.text for event in events if event.type == "done"] == ["It builds.", "It is built."]
    assert (code, [event.busy for event in events if event.type == "status"]) == (0, [True, False, True, False])


DEFERRING = """
import sys
from agentcore.app import App
from server import cli
from tests.server.test_why_http import Deferring
made = App.__init__
App.__init__ = lambda app, config: made(app, config, tools=[Deferring()])
sys.exit(cli.main())
"""


def test_a_run_that_waits_for_somebody_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody gives the result that a tool put off: the run is suspended, and what ends meanwhile begins no other."""
    puts_off = {"tool_calls": [{"name": "hand_over", "input": {}}]}
    command = [sys.executable, "-c", DEFERRING]
    with begun(tmp_path, story("bash", BUILD, puts_off, {"text": "Never."}), command=command) as process:
        code, out, errors = ended(process)
    assert (code, out, errors) == (1, "", "agentcore: the run ended early: suspended\n")


def test_ctrl_c_ends_the_wait_and_all_that_goes_on(tmp_path: Path) -> None:
    with begun(tmp_path, story("bash", BUILD, {"text": "It builds."})) as process:
        until_waiting(process)
        gate = os.open(tmp_path / "work" / "gate", os.O_WRONLY)  # opens when the command does
        pid = int((tmp_path / "work" / "pid").read_text())
        process.send_signal(signal.SIGINT)
        code, out, errors = ended(process)
    os.close(gate)
    assert (code, out, "Traceback" in errors) == (130, "It builds.\n", False)
    assert not is_alive(pid)
    *_, stopped, closed = journal(tmp_path)
    assert (stopped["state"], closed["type"]) == ("stopped", "session_closed")


def test_ctrl_c_in_a_run_ends_that_and_its_tasks(tmp_path: Path) -> None:
    waits = {"tool_calls": [{"name": "bash", "input": {"command": "cat gate"}}]}
    script = story("bash", BUILD, waits, {"text": "Never said."})
    with begun(tmp_path, script, "--output", "json") as process:
        assert process.stdout is not None
        starts = (line for line in process.stdout if '"type":"tool_start"' in line)
        next(starts), next(starts)
        process.send_signal(signal.SIGINT)
        code, out, _ = ended(process)
    assert code == 130
    assert '"Never said."' not in out
    events = journal(tmp_path)
    assert [event["stop_reason"] for event in of_kind(events, "done")] == ["interrupted"]
    assert [event["state"] for event in of_kind(events, "task_update")] == ["running", "stopped"]
