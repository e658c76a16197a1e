"""`agentcore models`, and which model `agentcore serve` takes when nobody names one: real processes, fake backends."""

import gc
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import anyio
import httpx
import pytest

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.providers.registry import Providers
from server.asgi import Application
from server.settings import Folders, ServerSettings
from tests.daemon import COMMAND, Daemon, running

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-0123456789"
OLLAMA = {"models": [{"name": "nomic-embed-text:latest", "details": {"family": "nomic-bert"}}, {"name": "qwen3:8b"}]}
LIST = {"object": "list", "data": [{"id": "m.gguf", "object": "model"}]}
SETTINGS = f"""
model = "fast"
fallbacks = ["lab/qwen3"]
mode = "plan"
colour = "red"
[aliases]
fast = "anthropic/claude-haiku-4-5"
[providers.lab]
type = "openai-compatible"
base_url = "https://api.groq.com/openai/v1"
api_key_env = "LAB"
[providers.broken]
type = "openai-compatible"
api_key = "{SECRET}"
"""
NOBODY = "127.0.0.1:1"
"""A port on which nothing listens: only root can open it."""
NOWHERE = {
    "OLLAMA_HOST": NOBODY,
    "LM_STUDIO_API_BASE": f"http://{NOBODY}/v1",
    "LLAMA_BASE_URL": f"http://{NOBODY}/v1",
}


@contextmanager
def backend(document: dict[str, Any]) -> Iterator[str]:
    """A model server on a free port that answers every GET with a document; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        body: ClassVar[bytes] = json.dumps(document).encode()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(self.body)))
            self.end_headers()
            self.wfile.write(self.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def write_settings(root: Path, text: str) -> None:
    folder = root / "config" / "agentcore"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.toml").write_text(text)


def models(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": os.environ["PATH"], "HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")}
    return subprocess.run(
        [COMMAND, "models", *arguments],
        cwd=root,
        env={**own, **NOWHERE, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# --- agentcore models ---


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "The scripted provider finds no file story.json: use scripted/demo or a path."),
        ('{"turns": 3}', "The script story.json is wrong at turns "),
    ],
)
async def test_a_script_that_cannot_be_played_is_told_at_the_start(
    tmp_path: Path, content: str | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "story.json").write_text(content)
    with running(tmp_path, "--model", f"scripted/{tmp_path}/story.json", **NOWHERE) as daemon:
        await info(daemon)  # by now the lines for people are written
        assert f"note      {told}" in daemon.log()


def test_everything_is_told_to_programs(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    with backend(OLLAMA) as address:
        ran = models(tmp_path, "--json", ANTHROPIC_API_KEY=SECRET, LAB=SECRET, OLLAMA_HOST=address)
    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    assert told["default"] == "anthropic/claude-haiku-4-5"
    assert told["fallbacks"] == ["lab/qwen3"]
    assert told["aliases"] == {"fast": "anthropic/claude-haiku-4-5"}
    providers = {one["name"]: one for one in told["providers"]}
    assert [name for name, one in providers.items() if one["ready"]] == ["anthropic", "lab", "ollama", "scripted"]
    assert providers["anthropic"]["models"][0] == {
        "name": "claude-sonnet-4-5",
        "context_window": 200_000,
        "input_usd": 3.0,
        "output_usd": 15.0,
    }
    assert providers["ollama"]["models"] == [
        {"name": "qwen3:8b", "context_window": None, "input_usd": None, "output_usd": None}
    ]
    assert "api_key_env" in providers["broken"]["why_not"]
    assert [part in notice for part, notice in zip(("`colour`", "broken"), told["notices"], strict=True)] == [True] * 2


def test_people_read_names_that_can_be_pasted_windows_and_prices(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    with backend(LIST) as address:
        ran = models(tmp_path, ANTHROPIC_API_KEY=SECRET, LLAMA_BASE_URL=f"http://{address}")
    lines = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    for line in (
        "anthropic: ready",
        "llamacpp: ready",
        "default: anthropic/claude-haiku-4-5",
        "fallbacks: lab/qwen3",
        "alias: fast = anthropic/claude-haiku-4-5",
    ):
        assert line in lines
    assert ["anthropic/claude-haiku-4-5", "200,000", "1.00", "5.00"] in [line.split() for line in lines]
    assert ["llamacpp/m.gguf", "?", "?", "?"] in [line.split() for line in lines]
    assert any(line.startswith("openai: ") and "OPENAI_API_KEY" in line for line in lines)
    assert SECRET not in ran.stdout


def test_a_provider_whose_models_are_not_known_says_how_to_name_one(tmp_path: Path) -> None:
    write_settings(tmp_path, '[providers.lab]\ntype = "openai-compatible"\nbase_url = "https://lab.example/v1"')
    lines = models(tmp_path).stdout.splitlines()
    assert "lab: ready; name a model as lab/<model>" in lines
    assert "scripted: ready" in lines
    assert any(line.startswith("?: not known") for line in lines)
    assert ["gemini/gemini-2.5-pro", "1,048,576", "1.25", "10.00"] in [line.split() for line in lines]


def test_settings_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    write_settings(tmp_path, 'model = "a/b"\n[providers\n')
    for ran in (models(tmp_path), models(tmp_path, "--json")):
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert "line 2" in ran.stderr
        assert str(tmp_path) not in ran.stderr


# --- agentcore serve ---


async def info(daemon: Daemon) -> dict[str, Any]:
    async with daemon.client() as http:
        answer: dict[str, Any] = (await http.get("/v1/info")).json()
        return answer


CHOICES: list[tuple[dict[str, Any], str, str]] = [
    (OLLAMA, "OLLAMA_HOST", "ollama/qwen3:8b"),
    (LIST, "LM_STUDIO_API_BASE", "lmstudio/m.gguf"),
    (LIST, "LLAMA_BASE_URL", "llamacpp/m.gguf"),
]


@pytest.mark.parametrize(("document", "variable", "model"), CHOICES)
async def test_a_server_on_this_machine_is_taken_where_there_is_no_key(
    tmp_path: Path, document: dict[str, Any], variable: str, model: str
) -> None:
    with backend(document) as address, running(tmp_path, **{**NOWHERE, variable: f"http://{address}"}) as daemon:
        told = await info(daemon)
    assert told["default_model"] == model
    name, _, rest = model.partition("/")
    assert {"name": name, "models": [rest], "ready": True} in told["providers"]
    assert f"{model} is the first model that is ready" in daemon.log()


async def test_a_provider_that_is_set_up_is_told_of_when_the_demo_plays_instead(tmp_path: Path) -> None:
    write_settings(tmp_path, '[providers.lab]\ntype = "openai-compatible"\nbase_url = "https://lab.example/v1"')
    with running(tmp_path, ANTHROPIC_API_KEY="ké", **NOWHERE) as daemon:
        await info(daemon)  # by now the lines for people are written
        assert "note      lab is ready, but no model of it is chosen: --model lab/<model>" in daemon.log()
        assert "note      Anthropic is not ready: ANTHROPIC_API_KEY holds characters" in daemon.log()
        assert "no key and no model server" not in daemon.log()  # there is one, only it cannot be used


async def test_a_model_that_its_server_does_not_list_is_told(tmp_path: Path) -> None:
    with backend(OLLAMA) as address:
        environment = {**NOWHERE, "OLLAMA_HOST": address}
        with running(tmp_path, "--model", "ollama/lost", **environment) as daemon, anyio.fail_after(10):
            while "Ollama lists no model lost that can chat; it has qwen3:8b." not in daemon.log():
                await info(daemon)


async def test_with_nothing_there_a_script_plays_and_that_is_said_aloud(tmp_path: Path) -> None:
    with running(tmp_path, **NOWHERE) as daemon:
        told = await info(daemon)
    assert told["default_model"] == "scripted/demo"
    assert "a script plays" in daemon.log()
    assert "ANTHROPIC_API_KEY" in daemon.log()


async def test_a_key_wins_over_a_server_on_this_machine(tmp_path: Path) -> None:
    environment = {**NOWHERE, "OPENAI_API_KEY": SECRET}
    with backend(OLLAMA) as address, running(tmp_path, **{**environment, "OLLAMA_HOST": address}) as daemon:
        told = await info(daemon)
        with anyio.fail_after(10):  # what runs on this machine is found out beside the start
            while not {one["name"]: one["ready"] for one in told["providers"]}["ollama"]:
                told = await info(daemon)
    assert told["default_model"] == "openai/gpt-6.1-sol"
    assert SECRET not in json.dumps(told)
    assert SECRET not in daemon.log()


async def test_info_tells_what_was_last_seen_and_looks_again_behind_the_answer(tmp_path: Path) -> None:
    now = [100.0]
    config = AppConfig(roots=(tmp_path,), data_dir=tmp_path, state_dir=tmp_path, config_dir=tmp_path, environ={})
    settings = ServerSettings(tmp_path, (tmp_path,), Folders(tmp_path, tmp_path, tmp_path), token="t")
    with backend(LIST) as address:
        environ = {**NOWHERE, "LLAMA_BASE_URL": f"http://{address}"}
        application = Application(settings, App(config, providers=Providers(environ, clock=lambda: now[0])))
    await application.start()
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(application.app),
        base_url="http://localhost",
        headers={"Authorization": "Bearer t"},
    )

    async def is_ready() -> bool:
        providers = (await client.get("/v1/info")).json()["providers"]
        return next(bool(one["ready"]) for one in providers if one["name"] == "llamacpp")

    async with client:
        assert application.core.default_model == "llamacpp/m.gguf"
        now[0] += 29.9
        assert [await is_ready(), await is_ready()] == [True, True]
        now[0] += 0.2
        assert [await is_ready(), await is_ready()] == [True, False]
    await application.stop()


async def test_a_provider_that_is_loaded_later_stays_out_of_the_collectors_way_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    settings = ServerSettings(tmp_path, (tmp_path,), Folders(tmp_path, tmp_path, tmp_path), "t", model="scripted/demo")
    core = Application(settings).core
    frozen = gc.get_freeze_count()
    try:
        await core.providers.get("anthropic").warm()
        assert gc.get_freeze_count() > frozen
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        await core.close()


async def test_the_settings_are_the_start_of_every_session_and_short_names_become_full_ones(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    with running(tmp_path, ANTHROPIC_API_KEY=SECRET, **NOWHERE) as daemon:
        told = await info(daemon)
        async with daemon.client() as http:
            created = (await http.post("/v1/sessions", json={"model": "fast"})).json()
            default = (await http.post("/v1/sessions", json={})).json()
            path = f"/v1/sessions/{default['id']}"
            changed = (await http.patch(path, json={"model": "scripted/demo", "mode": "default"})).json()
            again = (await http.patch(path, json={"model": "fast"})).json()
            refused = await http.patch(path, json={"model": "slow"})
        journal = daemon.journal(created["id"]).read_bytes()
    for state in (created, default, again):
        assert (state["provider"], state["model"]) == ("anthropic", "claude-haiku-4-5")
    assert (created["mode"], changed["mode"], changed["provider"]) == ("plan", "default", "scripted")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert "fast" in refused.json()["error"]
    assert b'"anthropic/claude-haiku-4-5"' in journal
    assert SECRET.encode() not in journal
    assert told["default_model"] == "anthropic/claude-haiku-4-5"
    log = daemon.log()
    assert "anthropic/claude-haiku-4-5; mode plan; when it fails lab/qwen3" in log
    assert "provider lab is not ready: it needs a key: set LAB" in log
    assert "`colour`" in log
    assert "[providers.broken]" in log
    assert SECRET not in log


async def test_the_command_line_wins_over_the_settings(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    with running(tmp_path, "--model", "scripted/demo", "--mode", "accept-edits", **NOWHERE) as daemon:
        async with daemon.client() as http:
            state = (await http.post("/v1/sessions", json={})).json()
    assert (state["provider"], state["mode"]) == ("scripted", "accept-edits")


async def test_a_chosen_model_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    with running(tmp_path, "--model", "anthropic/claude-sonnet-4-5", **NOWHERE) as daemon:
        await info(daemon)  # by now the lines for people are written
        assert "set ANTHROPIC_API_KEY" in daemon.log()
        assert "OPENAI_API_KEY" not in daemon.log()  # nobody asked for that one


async def test_a_chosen_local_model_whose_server_is_not_there_is_told_as_well(tmp_path: Path) -> None:
    with running(tmp_path, "--model", "ollama/qwen3", **NOWHERE) as daemon:
        with anyio.fail_after(10):
            while "Ollama does not answer" not in daemon.log():
                await info(daemon)


async def test_tools_get_no_variable_that_holds_a_key(tmp_path: Path) -> None:
    write_settings(tmp_path, SETTINGS)
    script = {"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "env"}}]}, {"text": "Done."}]}
    daemon = Daemon(tmp_path, ("--allow-yolo", "--mode", "yolo"), {"LAB": SECRET, "XAI_API_KEY": SECRET, **NOWHERE})
    try:
        daemon.start()
        model = daemon.script("env", script)
        async with daemon.client() as http:
            session = (await http.post("/v1/sessions", json={"model": model})).json()["id"]
            done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
            assert done.json()["text"] == "Done."
        [ended] = [event for event in daemon.events(session) if event["type"] == "tool_end"]
        assert "PATH=" in ended["output"]
        assert SECRET not in daemon.journal(session).read_text()
    finally:
        daemon.kill()
