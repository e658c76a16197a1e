"""`agentcore run`: one prompt without a server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentcore.events import EVENTS
from tests.daemon import COMMAND
from tests.server.test_models_command import LIST, NOWHERE, backend, write_settings

TURNS = {
    "answer": {"turns": [{"text": "Forty-two."}]},
    "asks": {"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "touch ran"}}]}, {"text": "Denied."}]},
    "cut": {"turns": [{"text": "Only hal", "stop": "max_tokens"}]},
    "refuses": {"turns": [{"text": "No.", "stop": "refusal"}]},
    "fails": {"turns": [{"error": {"kind": "overloaded", "message": "Too much to do."}}]},
}


def run(root: Path, script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    work = root / "work"
    work.mkdir(exist_ok=True)
    (work / "script.json").write_text(json.dumps(TURNS[script]))
    return subprocess.run(
        [COMMAND, "run", "--model", "scripted/script.json", "--state-dir", str(root / "state"), *arguments],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(root)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


CASES = [
    ("answer", 0, "Forty-two.\n"),
    ("asks", 0, "Denied.\n"),
    ("cut", 4, "Only hal\n"),
    ("refuses", 3, "No.\n"),
    ("fails", 1, ""),
]


@pytest.mark.parametrize(("script", "code", "output"), CASES)
def test_the_answer_is_on_stdout_and_the_reason_is_the_exit_code(
    tmp_path: Path, script: str, code: int, output: str
) -> None:
    ran = run(tmp_path, script, "-p", "go")
    assert (ran.returncode, ran.stdout) == (code, output)
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "work" / "ran").exists()


def test_a_failure_is_said_on_stderr(tmp_path: Path) -> None:
    assert "Too much to do." in run(tmp_path, "fails", "-p", "go").stderr


def alone(root: Path, *arguments: str, settings: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The same without a model on the command line; nothing runs on this machine."""
    write_settings(root, settings)
    own = {"PATH": os.environ["PATH"], "HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")}
    return subprocess.run(
        [COMMAND, "run", "-p", "go", "--state-dir", str(root / "state"), *arguments],
        cwd=root,
        env={**own, **NOWHERE, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_without_any_model_nothing_is_played_and_people_read_what_to_do(tmp_path: Path, output: str) -> None:
    environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "gw.example"}
    ran = alone(tmp_path, "--output", output, **environment)
    *notes, last = ran.stderr.splitlines()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "agentcore: Anthropic has no usable address: give ANTHROPIC_BASE_URL as http://… or https://…" in notes
    assert last == (
        "agentcore: There is no model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or start Ollama,"
        " LM Studio or llama.cpp (see agentcore models). A demo without one: --model scripted/demo"
    )
    assert not (tmp_path / "state" / "data" / "sessions").exists()


def test_the_demo_plays_for_whoever_asks_for_it(tmp_path: Path) -> None:
    ran = alone(tmp_path, "--model", "scripted/demo")
    assert (ran.returncode, bool(ran.stdout)) == (0, True)


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_has_no_effect_is_said_before_the_answer(tmp_path: Path, output: str) -> None:
    ran = alone(tmp_path, "--output", output, settings='model = "scripted/demo"\ncolour = "red"')
    assert ran.returncode == 0
    assert ran.stderr.splitlines()[0] == "agentcore: `colour` in settings.toml (line 2) has no effect in this version."


HOOK = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./check.sh"}]}]}, "model": "x"}
EARLY = {
    "settings_ignored": "agentcore: .claude/settings.json comes with the repository and can only tighten.",
    "approval_needed": "agentcore: 1 thing waits for approval before it runs (hooks and MCP servers of",
}


def test_what_a_session_is_told_before_its_prompt_is_said_and_is_among_the_events(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(HOOK))
    as_text, as_json = run(tmp_path, "answer", "-p", "go"), run(tmp_path, "answer", "-p", "go", "--output", "json")
    said = [line for line in as_text.stderr.splitlines() if line.startswith(tuple(EARLY.values()))]
    assert (as_text.stdout, len(said)) == ("Forty-two.\n", len(EARLY))
    assert as_json.stderr == ""
    lines = as_json.stdout.encode().splitlines()
    events = [EVENTS.validate_json(line) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    begun = next(index for index, event in enumerate(events) if event.type == "status")
    assert [event.code for event in events[:begun] if event.type == "notice"] == list(EARLY)
    session = json.loads(lines[0])["session"]
    journal = next((tmp_path / "state").rglob(f"*{session}*/journal.jsonl")).read_bytes().splitlines()
    durable = [line for line, event in zip(lines, events, strict=True) if event.durable]
    assert durable == [line for line in journal if b',"seq":' in line[:60]]


def test_a_model_that_nobody_chose_is_named(tmp_path: Path) -> None:
    with backend(LIST) as address:
        ran = alone(tmp_path, LLAMA_BASE_URL=f"http://{address}")
    assert ran.stderr.startswith(
        "agentcore: llamacpp/m.gguf is the first model that is ready;"
        " --model or `model` in settings.toml chooses another\n"
    )


SECOND = 'fallbacks = ["scripted/second.json"]'
NOTICES: dict[str, tuple[dict[str, object], list[str]]] = {
    "failover": (
        {"error": {"kind": "quota", "message": "No credit."}},
        ["scripted/first.json failed (quota): No credit. The run goes on with scripted/second.json."],
    ),
    "retry": (
        {"error": {"kind": "network", "message": "Cut.", "retry_after_s": 0.2}, "fail_times": 1, "text": "First."},
        ["scripted/first.json failed (network): Cut. It is asked again in 0."],
    ),
    "unknown tool": (
        {"tool_calls": [{"name": "basch", "input": {}}], "text": "Hm."},
        ["The model called an unknown tool: 'basch'."],
    ),
}


@pytest.mark.parametrize(("turn", "told"), NOTICES.values(), ids=NOTICES.keys())
def test_what_happened_on_the_way_is_said_on_stderr_or_is_an_event(
    tmp_path: Path, turn: dict[str, object], told: list[str]
) -> None:
    (tmp_path / "first.json").write_text(json.dumps({"turns": [turn]}))
    (tmp_path / "second.json").write_text(json.dumps({"turns": [{"text": "Second."}]}))
    as_text = alone(tmp_path, "--model", "scripted/first.json", settings=SECOND)
    as_json = alone(tmp_path, "--model", "scripted/first.json", "--output", "json", settings=SECOND)
    assert (as_text.returncode, as_json.returncode, as_json.stderr) == (0, 0, "")
    said = as_text.stderr.splitlines()
    assert [line.startswith(f"agentcore: {start}") for line, start in zip(said, told, strict=True)] == [True]
    notices = [event for line in as_json.stdout.splitlines() if (event := json.loads(line))["type"] == "notice"]
    assert [notice["text"].startswith(told[0]) for notice in notices] == [True]


def test_json_lines_are_the_events_of_the_journal_and_the_deltas(tmp_path: Path) -> None:
    ran = run(tmp_path, "asks", "-p", "go", "--output", "json")
    lines = ran.stdout.encode().splitlines()
    events = [EVENTS.validate_json(line) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "status"
    journal = next((tmp_path / "state").rglob("journal.jsonl")).read_bytes().splitlines()
    durable = [line for line, event in zip(lines, events, strict=True) if event.durable]
    assert durable == [line for line in journal if b',"seq":' in line[:60]]


def test_the_prompt_may_come_from_a_pipe(tmp_path: Path) -> None:
    assert run(tmp_path, "answer", stdin="what is it?").stdout == "Forty-two.\n"


MISTAKES = [
    (["-p", "  "], "empty"),
    (["-p", "x", "--mode", "yolo"], "--allow-yolo"),
    (["-p", "x", "--state-dir", "script.json/below"], "cannot be written"),
    (["-p", "x", "--model", "nobody/x"], "providers are"),
    (["-p", "x", "--model", "anthropic"], "provider/model"),
    (["-p", "x", "--model", ""], "provider/model"),
    (["-p", "x", "--model", "claude-sonnet-4-5"], "did you mean anthropic/claude-sonnet-4-5?"),
    (["-p", "x", "--cwd", "/nowhere"], "no folder"),
    (["-p", "x", "--max-turns", "0"], "--max-turns"),
]


@pytest.mark.parametrize(("arguments", "told"), MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], told: str) -> None:
    ran = run(tmp_path, "answer", *arguments)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""


def test_yolo_runs_without_asking_where_it_is_permitted(tmp_path: Path) -> None:
    ran = run(tmp_path, "asks", "-p", "go", "--mode", "yolo", "--allow-yolo")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Denied.\n", "")
    assert (tmp_path / "work" / "ran").exists()


def test_a_missing_key_names_its_variable(tmp_path: Path) -> None:
    ran = run(tmp_path, "answer", "-p", "x", "--model", "anthropic/claude-sonnet-4-5")
    assert ran.returncode == 1
    assert "ANTHROPIC_API_KEY" in ran.stderr


def test_an_interrupt_ends_the_run_in_good_order(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "slow.json").write_text(json.dumps({"delta_delay_ms": 50, "turns": [{"text": "One two three. " * 400}]}))
    process = subprocess.Popen(
        [COMMAND, "run", "-p", "x", "--output", "json", "--model", "scripted/slow.json", "--state-dir", "../state"],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    next(line for line in lines if line.startswith('{"type":"text_delta"'))
    process.send_signal(signal.SIGINT)
    rest = [EVENTS.validate_json(line) for line in lines]
    process.stdout.close()
    assert process.wait(20) == 130
    assert [event.stop_reason for event in rest if event.type == "done"] == ["interrupted"]


CTRL_C_AT = """
import os, signal, sys
import {module}
from server import cli
real = {module}.{function}
def interrupted(*given):
    os.kill(os.getpid(), signal.SIGINT)
    return real(*given)
{module}.{function} = interrupted
sys.exit(cli.main(["run", "-p", "x", "--model", "scripted/demo", "--state-dir", "state"]))
"""
MOMENTS = [
    ("server.settings", "existing_folder"),
    ("agentcore.app", "App.__init__"),
    ("server.hub", "Hub.create"),
    ("agentcore.sessions.store", "SessionStore.create"),
]


@pytest.mark.parametrize(("module", "function"), MOMENTS)
def test_an_interrupt_before_there_is_a_run_is_quiet(tmp_path: Path, module: str, function: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CTRL_C_AT.format(module=module, function=function)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
