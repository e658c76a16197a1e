"""`GET …/trace` and `agentcore trace`: what happened, and what was sent, without secrets."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from agentcore_client.client import Client
from tests.daemon import TOKEN, Daemon, running

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-AbCd1234EfGh5678IjKl"
OWN = 'a key that looks like none é"\\'
TASK = {"description": "look", "prompt": "look around", "subagent_type": "explore"}
STORY = {
    "scenes": [
        {"match": "look around", "turns": [{"text": "Found."}]},
        {"match": "delegate", "turns": [{"tool_calls": [{"name": "task", "input": TASK}]}, {"text": "Done."}]},
        {
            "turns": [
                {"text": "I look.", "tool_calls": [{"name": "bash", "input": {"command": f"echo {KEY} '<b>'"}}]},
                {"text": "Done."},
            ]
        },
    ]
}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("trace")
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json", "--allow-yolo", ANTHROPIC_API_KEY=OWN) as daemon:
        yield daemon


def told(served: Daemon, text: str = f"use {KEY} and {OWN}!", **settings: object) -> str:
    """A session with a run, told with secrets."""
    with Client(served.url, served.token) as client:
        session = client.create_session(mode="yolo", **settings)  # type: ignore[arg-type]  # what is set is the test's
        assert session.prompt_and_wait(text).text == "Done."
        return session.id


def page_of(served: Daemon, session: str) -> str:
    with Client(served.url, served.token) as client:
        return client.session(session).trace().decode()


def trace_file(served: Daemon, session: str) -> Path:
    return next(served.state_dir.rglob(session)) / "trace.jsonl"


def test_what_is_sent_is_kept_only_where_that_was_asked_for(served: Daemon) -> None:
    with_it, without = told(served, trace=True), told(served)
    assert trace_file(served, with_it).stat().st_mode & 0o777 == 0o600
    assert not trace_file(served, without).exists()
    assert "sent to scripted:" in page_of(served, with_it)
    assert "was not kept" in page_of(served, without)
    assert "I look." in page_of(served, without)  # what happened is told all the same


def test_the_requests_alone_are_lines_of_json(served: Daemon) -> None:
    with_it, without = told(served, trace=True), told(served)
    headers = {"Authorization": f"Bearer {served.token}"}
    with httpx.Client(base_url=served.url, headers=headers) as http:
        answer = http.get(f"/v1/sessions/{with_it}/trace", params={"format": "jsonl"})
        sent = [json.loads(line) for line in answer.text.splitlines()]
        assert (answer.status_code, len(sent)) == (200, 2)
        assert all("I look." not in one["body"] for one in sent[:1])
        assert "I look." in sent[1]["body"], "whole, though only what is new is kept"
        assert KEY not in answer.text
        nothing = http.get(f"/v1/sessions/{without}/trace", params={"format": "jsonl"})
        assert (nothing.status_code, nothing.json()["code"]) == (404, "not_found")
        assert http.get(f"/v1/sessions/{with_it}/trace", params={"format": "pdf"}).status_code == 400


@pytest.mark.parametrize("place", ["link", "pipe"])
def test_what_stands_in_the_place_of_the_file_holds_up_nobody_and_the_page_says_so(served: Daemon, place: str) -> None:
    with Client(served.url, served.token) as client:
        session = client.create_session(mode="yolo", trace=True)
        file = trace_file(served, session.id)
        file.symlink_to(served.cwd / "story.json") if place == "link" else os.mkfifo(file)
        assert session.prompt_and_wait("go").text == "Done."
    page = page_of(served, session.id)
    assert "What was sent to the model cannot be read: trace.jsonl" in page
    assert "I look." in page
    command = [sys.executable, "-m", "server.cli", "trace", "--state-dir", str(served.state_dir), session.id]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "prompt" in ran.stdout) == (0, True)


def test_with_debug_it_is_kept_of_every_session_that_does_not_say_no(tmp_path: Path) -> None:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo", "--debug") as served:
        assert trace_file(served, told(served)).exists()
        assert not trace_file(served, told(served, trace=False)).exists()


def test_neither_the_page_nor_the_file_holds_a_secret(served: Daemon) -> None:
    session = told(served, trace=True)
    kept = trace_file(served, session).read_text()
    for text in (page_of(served, session), kept):
        assert "[redacted]" in text
        assert KEY not in text
        assert TOKEN not in text
        assert "a key that looks like none" not in text


async def test_the_page_may_do_nothing_in_a_browser(served: Daemon) -> None:
    session = told(served)
    async with served.client() as http:
        answer = await http.get(f"/v1/sessions/{session}/trace")
        assert (await http.get("/v1/sessions/nobody/trace")).json()["code"] == "not_found"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "sandbox" in answer.headers["content-security-policy"]
    async with httpx.AsyncClient(base_url=served.url) as nobody:
        assert (await nobody.get(f"/v1/sessions/{session}/trace")).status_code == 401


def in_a_browser(served: Daemon, session: str, folder: Path) -> str:
    """The page as a real browser understands it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed here")
    page = folder / "page.html"
    page.write_text(page_of(served, session))
    quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", *quiet, f"--user-data-dir={folder}/own"]
    command = [CHROMIUM, *flags, "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


class Nesting(HTMLParser):
    """Of what stands in what: a path of classes for each `details`, and the texts in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.paths: list[tuple[str, ...]] = []
        self.texts: dict[tuple[str, ...], str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            self.open.append(dict(attrs)["class"] or "")
            self.paths.append(tuple(self.open))

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self.open.pop()

    def handle_data(self, data: str) -> None:
        path = tuple(self.open)
        self.texts[path] = self.texts.get(path, "") + data


def test_a_browser_shows_each_call_once_and_runs_nothing(served: Daemon, tmp_path: Path) -> None:
    shown = in_a_browser(served, told(served, trace=True), tmp_path)
    assert Nesting(shown).paths == [("prompt",), ("model",), ("tool",), ("notice",), ("model",), ("end",)]
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_in_a_browser_the_requests_of_a_subagent_lie_in_the_call_that_began_it(served: Daemon, tmp_path: Path) -> None:
    nesting = Nesting(in_a_browser(served, told(served, "delegate this", trace=True), tmp_path))
    below = ("tool", "agent")
    assert [path for path in nesting.paths if path[:2] == below] == [below, (*below, "prompt"), (*below, "model")]
    assert '"text": "look around"' in nesting.texts[*below, "model"]
    assert "sent to scripted:" in nesting.texts[*below, "model"]
    assert '"text": "delegate this"' in nesting.texts[("model",)]


def test_the_command_line_tells_it_without_a_server(served: Daemon, tmp_path: Path) -> None:
    session, page = told(served, trace=True), tmp_path / "page.html"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "server.cli", "trace", "--state-dir", str(served.state_dir), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    lines = run(session[:-3]).stdout.splitlines()
    assert [line.split()[2] for line in lines if " s   " in line][:2] == ["prompt", "model"]
    assert run("latest", "--html", str(page)).returncode == 0
    assert "sent to scripted:" in page.read_text()
    assert KEY not in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
    missing = run("nobody")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "There is no session 'nobody'" in missing.stderr
    unwritable = run("latest", "--html", str(tmp_path / "no" / "page.html"))
    assert unwritable.returncode == 2
    assert json.dumps(unwritable.stderr).count("Traceback") == 0
