"""What all sessions of a process share: the sandbox of their commands, one language server for each project."""

import gc
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.events import ToolEnd
from agentcore.sandbox import choosing
from agentcore.sandbox.choosing import NoSandbox
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio

LANGUAGE_SERVER = Path(__file__).parent.parent / "language_server.py"


def choose(root: Path, text: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "settings.toml").write_text(text)


async def confined(home: House) -> None:
    await home.app.probe_sandbox()
    if not home.app.sandbox.is_available:
        pytest.skip(f"the sandbox cannot run here: {home.app.sandbox.why_not}")


async def outcome(home: House, live: LiveSession, name: str, *, allow: bool | None = None, **input: object) -> ToolEnd:
    """Of one call; `allow` answers the request that it must come to, None: it must come to none."""
    home.provider.script(use(call(name, **input)), say("done"))
    answers = [] if allow is None else [AnswerBody(allow=allow)]
    events = await home.run(live, "go", answers)
    asked = [event for event in events if event.type == "permission_request"]
    assert len(asked) == len(answers)
    [end] = [event for event in events if isinstance(event, ToolEnd)]
    return end


def notices(root: Path) -> list[dict[str, Any]]:
    """In the journals of all sessions."""
    lines = b"".join(file.read_bytes() for file in (root / "data").rglob("*.jsonl")).splitlines()
    return [line for line in map(json.loads, lines) if line["type"] == "notice"]


# --- the sandbox ---


async def test_a_command_is_confined_in_every_mode_even_where_nothing_asks(tmp_path: Path) -> None:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text("SECRET")
    async with house(tmp_path) as home:
        await confined(home)
        live = await home.session(mode="yolo")
        script = f"echo in > a; echo out > {tmp_path}/out; cat {tmp_path}/home/.ssh/*\n"
        (tmp_path / "work" / "run.sh").write_text(script)  # where no rule looks
        end = await outcome(home, live, "bash", command="sh run.sh")
        assert (tmp_path / "work" / "a").read_text() == "in\n"
        assert not (tmp_path / "out").exists()
        assert "SECRET" not in end.output


async def test_with_auto_allow_what_is_confined_runs_unasked_and_what_is_not_asks(tmp_path: Path) -> None:
    choose(tmp_path, "[sandbox]\nauto_allow = true\n")
    async with house(tmp_path) as home:
        await confined(home)
        live = await home.session()
        assert (await outcome(home, live, "bash", command="echo a > a && cat a")).output.startswith("a")
        end = await outcome(home, live, "bash", command=f"touch {tmp_path}/b", sandbox=False, allow=True)
        assert not end.is_error
        assert (tmp_path / "b").exists()


@pytest.mark.parametrize("auto_allow", ["true", "false"])
async def test_where_it_does_not_work_each_command_asks_and_the_session_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auto_allow: str
) -> None:
    monkeypatch.setattr(choosing, "for_this_system", lambda: NoSandbox("There is none here."))
    choose(tmp_path, f"[sandbox]\nauto_allow = {auto_allow}\n")
    async with house(tmp_path) as home:
        live = await home.session()
        [told] = notices(tmp_path)
        assert (told["level"], told["code"]) == ("warning", "sandbox_unavailable")
        assert told["text"].startswith("There is none here.")
        assert (await outcome(home, live, "bash", command="touch a", allow=True)).is_error is False


async def test_switched_off_it_is_not_used_and_nobody_is_told(tmp_path: Path) -> None:
    choose(tmp_path, "[sandbox]\nenabled = false\nauto_allow = true\n")
    async with house(tmp_path) as home:
        live = await home.session()
        assert notices(tmp_path) == []
        await outcome(home, live, "bash", command=f"touch {tmp_path}/out", allow=True)
        assert (tmp_path / "out").exists()


def hook(root: Path, enabled: str = "true") -> None:
    """A hook that writes inside of the project and outside of it."""
    script = f"echo in > in.txt; echo out > {root}/out.txt; echo heard >&2; exit 2"
    sandbox = f"[sandbox]\nhooks = true\nenabled = {enabled}\n"
    choose(root, f"{sandbox}[[hooks.PreToolUse]]\nhooks = [{{ type = 'command', command = '{script}' }}]\n")


async def test_hooks_are_confined_where_the_user_asks_for_it(tmp_path: Path) -> None:
    hook(tmp_path)
    async with house(tmp_path) as home:
        await confined(home)
        live = await home.session(mode="yolo")
        end = await outcome(home, live, "bash", command="true")
    assert "heard" in end.output  # it ran, and was obeyed
    assert (tmp_path / "work" / "in.txt").exists()
    assert not (tmp_path / "out.txt").exists()


async def test_hooks_that_cannot_be_confined_do_not_run_and_people_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "for_this_system", lambda: NoSandbox("There is none here."))
    hook(tmp_path)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        await outcome(home, live, "bash", command="true")
    assert not (tmp_path / "work" / "in.txt").exists()
    codes = {notice["code"] for notice in notices(tmp_path)}
    assert codes == {"sandbox_unavailable", "hook_failed", "command_not_covered"}


async def test_without_a_sandbox_hooks_run_as_they_are(tmp_path: Path) -> None:
    hook(tmp_path, enabled="false")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        await outcome(home, live, "bash", command="true")
    assert (tmp_path / "out.txt").exists()


# --- language servers ---


def running(word: str) -> int:
    """How many processes of this machine have a word on their command line."""
    found = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += word.encode() in file.read_bytes()
    return found


def with_language(root: Path) -> str:
    """Set up a language server for `.odd`; returns what its command line has and no other one."""
    log = f"{root}/language.log"
    command = json.dumps([sys.executable, str(LANGUAGE_SERVER), log])
    choose(root, f"[lsp.odd]\ncommand = {command}\nsuffixes = ['.odd']\n")
    return log


async def test_ten_sessions_have_one_language_server_which_ends_with_the_process(tmp_path: Path) -> None:
    log = with_language(tmp_path)
    async with house(tmp_path) as home:
        for number in range(10):
            live = await home.session(mode="yolo")
            end = await outcome(home, live, "write", file_path=f"{number}.odd", content="fine\nBAD\n")
            assert "BAD" in end.output or "error" in end.output
        assert running(log) == 1
        [state] = home.app.language_states()
        assert (state.language, state.state, state.error) == ("odd", "ready", "")
    assert running(log) == 0


async def test_a_language_that_is_switched_off_has_no_server(tmp_path: Path) -> None:
    choose(tmp_path, "[lsp.python]\nenabled = false\n")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        await outcome(home, live, "write", file_path="a.py", content="x: int = 'a'\n")
        assert home.app.language_states() == []


WRONG = {
    "lsp = 3": "`lsp`",
    "[lsp]\nodd = 3": "[lsp.odd]",
    "[lsp.odd]\nsuffixes = ['.odd']": "`command`",
    "[lsp.odd]\ncommand = ['x']": "`suffixes`",
    "[lsp.odd]\ncommand = ['x']\nsuffixes = ['odd']": "begins with a dot",
    "[lsp.odd]\ncomand = ['x']\nsuffixes = ['.odd']": "did you mean `command`?",
    "[lsp.odd]\ncommand = 'x'\nsuffixes = ['.odd']": "`command`",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
async def test_a_language_server_that_cannot_be_used_is_told_and_the_rest_works(
    tmp_path: Path, text: str, said: str
) -> None:
    choose(tmp_path, text)
    async with house(tmp_path) as home:
        [notice] = home.app.notices
        assert said in notice
        assert "settings.toml (line " in notice
        await home.session()


# --- what is left behind ---


async def test_a_hundred_sessions_leave_no_process_task_or_descriptor_behind(tmp_path: Path) -> None:
    log = with_language(tmp_path)

    async def one(home: House) -> None:
        live = await home.session(mode="yolo")
        await outcome(home, live, "bash", command="true")
        await outcome(home, live, "write", file_path="a.odd", content="fine\n")
        await home.hub.close(live, "deleted")
        home.heard.pop(live.id)

    def left() -> tuple[int, int, int]:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir())), len(anyio.get_running_tasks()), running(log)

    async with house(tmp_path) as home:
        await one(home)  # what is loaded and started once
        before = left()
        for _ in range(100):
            await one(home)
        assert left() == before
