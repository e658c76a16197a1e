"""The room of language servers, against a server of our own that misbehaves as it is told."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from agentcore import marks
from agentcore.languages import Checked, CodeAction, CodeFile, FileRewrite, LanguageState, Place, Problem, Spot, Symbol
from agentcore.lsp import pipes as pipes_module
from agentcore.lsp import reading as reading_module
from agentcore.lsp import room as room_module
from agentcore.lsp import server as server_module
from agentcore.lsp import supervisor as supervisor_module
from agentcore.lsp.documents import MAX_OPEN
from agentcore.lsp.known import LanguageSetup
from agentcore.lsp.room import AGAIN_S, IDLE_S, LanguageServers
from agentcore.lsp.supervisor import MAX_CRASHES, RAN_WELL_S
from agentcore.ports.tools import ToolError
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parent.parent / "language_server.py"
CODE = "name = 😀 name\nBAD x\n😀ODD\n"


class Bench:
    """A project, a room with one fake server for it, and what that server was sent."""

    def __init__(self, base: Path, *traits: str, max_servers: int = 6, environ: dict[str, str] | None = None) -> None:
        self.root = base.resolve() / "project"
        self.root.mkdir(exist_ok=True)
        (self.root / ".git").mkdir(exist_ok=True)
        self.log = base / "log"
        self.clock = FakeClock()
        setup = LanguageSetup(
            "fake",
            (sys.executable, str(PROGRAM), str(self.log), *traits),
            {".fake": "fake"},
            ("fake.toml",),
            settings={"fake": {"deep": {"on": True}}},
        )
        self.room = LanguageServers(environ or os.environ, self.clock, (setup,), max_servers=max_servers)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Bench"]:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                await group.start(self.room.serve)
                yield self
                group.cancel_scope.cancel()

    def file(self, name: str = "a.fake", text: str | None = CODE) -> CodeFile:
        path = self.root / name
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return CodeFile(path, self.root, self.text)

    def text(self, path: Path) -> str | None:
        inside = path.is_relative_to(self.root) and path.exists()
        return path.read_bytes().decode() if inside else None

    def sent(self, *methods: str) -> list[Any]:
        messages = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [one for one in messages if not methods or one.get("method") in methods]

    @property
    def starts(self) -> int:
        return len(self.sent("initialize"))

    def wake(self) -> None:
        """Let a server go on that hangs."""
        Path(f"{self.log}.wake").touch()

    def processes(self) -> list[int]:
        """The pids of all that carries a mark of this process and works for this bench; without zombies."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "environ").read_bytes()
            except OSError:
                continue
            if entry.name.isdigit() and b"AGENTCORE_CALL=%d." % os.getpid() in words:
                found.append(int(entry.name))
        return found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits, for servers that never answer."""
    monkeypatch.setattr(supervisor_module, "BACKOFF_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(server_module, "STOP_S", 0.2)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what other processes do has no event
        await anyio.sleep(0.01)


async def error(asking: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await asking
    return str(caught.value)


# --- what is asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
async def test_every_question_is_answered_in_lines_and_columns_of_ours(tmp_path: Path, encoding: str) -> None:
    async with Bench(tmp_path, encoding).open() as bench:
        file = bench.file()
        path, room = file.real, bench.room
        first = Place(path, 1, 1, "name = 😀 name")
        spot = Spot(file, 1, 10)
        assert await room.definition(spot) == [first]
        assert await room.references(spot) == [Place(Path("/etc/hostname"), 1, 1), first]
        assert await room.hover(spot) == f"0:{10 if encoding == 'utf-16' else 12}\n\nwords"
        assert await room.symbols(file) == [
            Symbol("name", "function", first),
            Symbol("inner", "variable", first, "name", 1),
        ]
        bad = Problem("error", Place(path, 2, 1, "BAD x"), "BAD here", "fake 1")
        odd = Problem("warning", Place(path, 3, 2, "😀ODD"), "ODD here", "fake 2")
        assert await room.diagnostics(file) == [bad, odd]
        assert await room.rename(spot, "😀é") == [FileRewrite(path, CODE, CODE.replace("name", "😀é", 1))]
        good = FileRewrite(path, CODE, CODE.replace("BAD", "GOOD"))
        fixes = [CodeAction("Make it good", "quickfix", (good,)), CodeAction("Do it there", "")]
        assert await room.code_actions(Spot(file, 2, 1)) == fixes
        assert await room.code_actions(Spot(file, 1, 1)) == []
        assert bench.room.states() == [LanguageState("fake", Path(sys.executable).name, "ready")]


async def test_windows_line_ends_move_nothing(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        file = bench.file(text="x\r\n😀 name\r\nBAD\r\n")
        assert await bench.room.definition(Spot(file, 2, 3)) == [Place(file.real, 2, 3, "😀 name")]
        rewritten = FileRewrite(file.real, "x\r\n😀 name\r\nBAD\r\n", "x\r\n😀 n\r\nBAD\r\n")
        assert await bench.room.rename(Spot(file, 2, 3), "n") == [rewritten]


async def test_what_the_server_asks_is_answered_and_it_may_change_nothing(tmp_path: Path) -> None:
    async with Bench(tmp_path, "asks").open() as bench:
        assert await bench.room.hover(Spot(bench.file(), 1, 1)) == "0:0\n\nwords"
        answers = {one["id"]: one for one in bench.sent() if "method" not in one}
        assert {key.removeprefix("ask-"): one.get("result", one.get("error")) for key, one in answers.items()} == {
            "workspace/configuration": [{"on": True}, None, {"fake": {"deep": {"on": True}}}],
            "workspace/applyEdit": {
                "applied": False,
                "failureReason": "edits are made by the agent's own tools",
            },
            "window/workDoneProgress/create": None,
            "made/up": {"code": -32601, "message": "made/up is not known here"},
        }


@pytest.mark.parametrize(
    ("traits", "words"),
    [
        (("moves",), "it makes, moves or removes files"),
        (("elsewhere",), "outside of the project"),
    ],
)
async def test_a_rename_that_is_more_than_texts_of_the_project_is_refused(
    tmp_path: Path, traits: tuple[str, ...], words: str
) -> None:
    async with Bench(tmp_path, *traits).open() as bench:
        assert words in await error(bench.room.rename(Spot(bench.file(), 1, 1), "n"))


async def test_bad_questions_say_what_is_wrong(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        assert "line 40 is past the end: the file has 4 lines" in await error(
            bench.room.hover(Spot(bench.file(), 40, 1))
        )
        assert "no language server for .txt" in await error(bench.room.symbols(bench.file("a.txt")))
        assert "cannot be read as text" in await error(bench.room.symbols(bench.file("gone.fake", None)))


# --- diagnostics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trait", ["push", "stale", "pieces", "pull", "pull-later", "unchanged"])
async def test_a_change_is_followed_by_its_problems_new_ones_first(tmp_path: Path, trait: str) -> None:
    traits = ("pull", "unchanged") if trait == "unchanged" else (trait,)
    async with Bench(tmp_path, *traits).open() as bench:
        room, path = bench.room, bench.root / "a.fake"
        bad = Problem("error", Place(path, 2, 1, "BAD x"), "BAD here", "fake 1")
        odd = Problem("warning", Place(path, 3, 2, "😀ODD"), "ODD here", "fake 2")
        assert await room.after_change(bench.file()) == Checked(new=(bad, odd))
        assert await room.after_change(bench.file()) == Checked(old=(bad, odd))
        if trait == "unchanged":
            return
        moved = Problem("error", Place(path, 1, 1, "BAD x"), "BAD here", "fake 1")
        second = Problem("error", Place(path, 2, 1, "BAD y"), "BAD here", "fake 1")
        assert await room.after_change(bench.file(text="BAD x\nBAD y\nHINT\n")) == Checked(new=(second,), old=(moved,))
        assert await room.after_change(bench.file(text="fine\n")) == Checked()
        assert bench.sent("textDocument/didSave")


async def test_a_file_without_a_server_is_nobodys_matter(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        assert await bench.room.after_change(bench.file("notes.txt")) is None
        assert bench.room.states() == []


async def test_a_slow_server_gets_the_long_time_once_and_then_the_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.setattr(room_module, "LOADING_S", 0.3)
    monkeypatch.setattr(room_module, "AFTER_CHANGE_S", 0.1)
    async with Bench(tmp_path, "hang-at-start").open() as bench:
        name = Path(sys.executable).name
        for waited in ("0.3 s", "0.1 s and says nothing: changes wait for it no more until it does"):
            checked = await bench.room.after_change(bench.file())
            assert checked == Checked(pending=f"{name} has not looked at it within {waited}")
        assert bench.room._supervisors[("fake", bench.root)].was_waited_for
        assert bench.starts == 1


async def test_a_change_waits_no_longer_than_for_the_first_failure_of_its_server(tmp_path: Path) -> None:
    async with Bench(tmp_path, "die-at-start").open() as bench:
        name = Path(sys.executable).name
        why = f"The language server {name} does not run: it ended"
        assert await bench.room.after_change(bench.file()) == Checked(pending=why)
        assert bench.room.states() == [LanguageState("fake", name, "restarting", why)]
        assert await bench.room.after_change(bench.file()) is None  # said once; what is not there is not waited for


async def test_a_change_is_told_of_a_server_that_breaks_while_it_looks(tmp_path: Path) -> None:
    async with Bench(tmp_path, "die-when-opened").open() as bench:
        name = Path(sys.executable).name
        checked = await bench.room.after_change(bench.file())
        assert checked == Checked(pending=f"{name} is being started anew: try again in a moment")


@pytest.mark.parametrize("trait", ["hang-when-opened", "hang-when-asked"])
async def test_a_server_that_was_silent_twice_is_waited_for_no_more_until_it_says_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None, trait: str
) -> None:
    monkeypatch.setattr(room_module, "LOADING_S", 0.3)
    monkeypatch.setattr(room_module, "AFTER_CHANGE_S", 0.1)
    async with Bench(tmp_path, trait, "pull" if trait == "hang-when-asked" else "push").open() as bench:
        name = Path(sys.executable).name
        room = bench.room
        await room.symbols(bench.file("ready.fake", "name"))  # it runs, and what it says of that is heard
        first, second = await room.after_change(bench.file()), await room.after_change(bench.file(text="BAD y\n"))
        assert first == Checked(pending=f"{name} has not looked at it within 0.3 s")
        silent = f"{name} has not looked at it within 0.1 s and says nothing: changes wait for it no more until it does"
        assert second == Checked(pending=silent)
        why = f"{name} said nothing while two changes waited for it"
        assert room.states() == [LanguageState("fake", name, "silent", why)]
        monkeypatch.setattr(room_module, "AFTER_CHANGE_S", 1000)  # would be waited for, past the bound of this test
        monkeypatch.setattr(room_module, "LOADING_S", 1000)
        assert await room.after_change(bench.file(text="BAD z\n")) is None
        bench.wake()
        await until(lambda: room.states() == [LanguageState("fake", name, "ready")])
        shown = [one["params"]["contentChanges"][0]["text"] for one in bench.sent("textDocument/didChange")]
        assert shown == ["BAD y\n", "BAD z\n"]
        checked = await room.after_change(bench.file(text="BAD last\n"))
        assert checked is not None
        assert [(one.place.text, one.message) for one in (*checked.new, *checked.old)] == [("BAD last", "BAD here")]


async def test_two_changes_that_wait_at_the_same_time_are_one_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.setattr(room_module, "LOADING_S", 0.3)
    async with Bench(tmp_path, "hang-at-start").open() as bench:
        async with anyio.create_task_group() as group:
            for name in ("a.fake", "b.fake"):
                group.start_soon(bench.room.after_change, bench.file(name))
        assert bench.room.states()[0].state == "starting"


async def test_only_a_server_that_loads_is_given_the_long_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.setattr(room_module, "AFTER_CHANGE_S", 0.05)
    async with Bench(tmp_path).open() as bench:
        await bench.room.after_change(bench.file())  # a process has to start meanwhile: that takes longer
        assert not bench.room._supervisors[("fake", bench.root)].was_waited_for


async def test_a_server_that_says_that_it_works_is_loading(tmp_path: Path) -> None:
    for trait, is_loading in (("plain", False), ("progress", True)):
        async with Bench(tmp_path, trait).open() as bench:
            await bench.room.after_change(bench.file())
            server = bench.room._supervisors[("fake", bench.root)].server
            assert server is not None
            assert server.is_loading is is_loading


# --- documents ----------------------------------------------------------------------------------------------------


async def test_open_and_close_are_paired_and_bounded(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        for number in range(MAX_OPEN + 3):
            await bench.room.symbols(bench.file(f"{number}.fake"))
            await bench.room.symbols(bench.file("0.fake"))  # used all the time, so never the oldest
        await until(lambda: len(bench.sent("textDocument/didClose")) == 3)
        bench.clock.time += IDLE_S
        bench.room.stop_idle()
        await until(lambda: bench.room.states()[0].state == "stopped")
    opened = [one["params"]["textDocument"]["uri"] for one in bench.sent("textDocument/didOpen")]
    closed = [one["params"]["textDocument"]["uri"] for one in bench.sent("textDocument/didClose")]
    assert sorted(opened) == sorted(closed)  # the rest at the end
    assert closed[:3] == [(bench.root / f"{number}.fake").as_uri() for number in (1, 2, 3)]


async def test_the_server_sees_what_others_changed_on_disk_and_what_they_removed(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        for name in ("a.fake", "b.fake", "c.fake"):
            await bench.room.symbols(bench.file(name))
        (bench.root / "b.fake").write_text("name other\n")
        (bench.root / "c.fake").unlink()
        await bench.room.symbols(bench.file("a.fake", None))
        changed = bench.sent("textDocument/didChange")
        assert [(one["params"]["textDocument"]["version"], one["params"]["contentChanges"]) for one in changed] == [
            (2, [{"text": "name other\n"}])
        ]
        closed = [one["params"]["textDocument"]["uri"] for one in bench.sent("textDocument/didClose")]
        assert closed == [(bench.root / "c.fake").as_uri()]


# --- servers that misbehave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trait", ["flood", "wrong-ids"])
async def test_noise_is_left_out_and_the_answer_comes(tmp_path: Path, trait: str) -> None:
    async with Bench(tmp_path, trait).open() as bench:
        assert await bench.room.hover(Spot(bench.file(), 1, 1)) == "0:0\n\nwords"


@pytest.mark.parametrize(
    ("trait", "words"),
    [
        ("die-in-hover", "is being started anew (it ended)"),
        ("huge", "is being started anew (it sent a message of 99999999999 bytes"),
        ("garbage", "is being started anew (it prints something that is no message)"),
    ],
)
async def test_a_server_that_breaks_in_a_call_is_told_and_started_anew(
    tmp_path: Path, quick: None, trait: str, words: str
) -> None:
    async with Bench(tmp_path, trait).open() as bench:
        await bench.room.symbols(bench.file())
        assert words in await error(bench.room.hover(Spot(bench.file(), 1, 1)))
        assert (await bench.room.symbols(bench.file()))[0].name == "name"
        assert bench.starts == 2
        assert bench.room.states()[0].state == "ready"


@pytest.mark.parametrize(
    ("trait", "why", "starts"),
    [
        ("die-at-start", "it ended", 0),
        ("utf-32", "it counts positions in a way that was not offered to it", 4),
        ("hang-at-start", "it did not start within 0 s", 4),
        ("nonsense-at-start", "it answered its start with something that makes no sense", 4),
    ],
)
async def test_a_server_that_never_starts_is_given_up_and_tried_again_much_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None, trait: str, why: str, starts: int
) -> None:
    if trait == "hang-at-start":
        monkeypatch.setattr(server_module, "START_S", 0.4)
    async with Bench(tmp_path, trait).open() as bench:
        name = Path(sys.executable).name
        sentence = f"The language server {name} does not run: {why}, 4 times in a row"
        assert await error(bench.room.symbols(bench.file())) == f"{sentence}; search with grep instead"
        assert bench.room.states() == [LanguageState("fake", name, "failed", sentence)]
        assert await bench.room.after_change(bench.file()) is None
        await error(bench.room.symbols(bench.file()))
        assert bench.starts == starts
        bench.clock.time += AGAIN_S
        await error(bench.room.symbols(bench.file()))
        assert bench.starts == 2 * starts
        assert bench.processes() == []


@pytest.mark.parametrize(("ran_s", "state"), [(RAN_WELL_S, "ready"), (RAN_WELL_S - 1, "failed")])
async def test_only_crashes_in_a_row_count(tmp_path: Path, quick: None, ran_s: float, state: str) -> None:
    async with Bench(tmp_path, "die-in-hover").open() as bench:
        for _ in range(MAX_CRASHES + 1):
            await bench.room.symbols(bench.file())
            bench.clock.time += ran_s
            await error(bench.room.hover(Spot(bench.file(), 1, 1)))
        await until(lambda: bench.room.states()[0].state == state)


async def test_a_server_that_answers_nothing_more_is_taken_for_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    async with Bench(tmp_path, "mute-in-hover").open() as bench:
        await bench.room.symbols(bench.file())
        monkeypatch.setattr(server_module, "REQUEST_S", 0.05)
        for _ in range(server_module.MAX_SILENT):
            assert "did not answer" in await error(bench.room.hover(Spot(bench.file(), 1, 1)))
        monkeypatch.setattr(server_module, "REQUEST_S", 10)
        await bench.room.symbols(bench.file())
        assert bench.starts == 2
        assert len(bench.sent("$/cancelRequest")) >= server_module.MAX_SILENT - 1  # the last may come too late


async def test_a_server_that_does_not_read_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    async with Bench(tmp_path).open() as bench:
        await bench.room.symbols(bench.file())
        with monkeypatch.context() as patched:
            patched.setattr(pipes_module, "MAX_UNSENT_BYTES", 2000)
            words = await error(bench.room.symbols(bench.file(text="name " * 1000)))
        assert "it does not read what it is sent" in words
        assert (await bench.room.symbols(bench.file()))[0].name == "name"
        assert bench.starts == 2


async def test_a_file_that_is_too_large_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "MAX_FILE_CHARS", 10)
    async with Bench(tmp_path).open() as bench:
        assert "cannot be read as text" in await error(bench.room.symbols(bench.file()))
        assert bench.sent("textDocument/didOpen") == []


async def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    setup = LanguageSetup("fake", ("no-such-server",), {".fake": "fake"})
    bench.room = LanguageServers({"PATH": ""}, bench.clock, (setup,))
    async with bench.open():
        assert await bench.room.after_change(bench.file()) is None
        words = await error(bench.room.symbols(bench.file()))
        assert words.startswith("no-such-server is not installed: put it on the PATH")
        assert bench.room.states()[0].state == "missing"
        assert await bench.room.after_change(bench.file()) is None


# --- one for all, and none left -----------------------------------------------------------------------------------


async def test_ten_sessions_share_one_server_and_its_answers(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(bench.room.after_change, bench.file(f"{number % 3}.fake"))
                group.start_soon(bench.room.definition, Spot(bench.file(), 1, 1))
        assert bench.starts == 1
        assert len(bench.processes()) == 1
    assert bench.processes() == []


async def test_each_project_has_a_server_and_too_many_make_room(tmp_path: Path) -> None:
    async with Bench(tmp_path, max_servers=2).open() as bench:
        for folder in ("one", "two", "three"):
            bench.clock.time += 1
            (bench.root / folder).mkdir()
            (bench.root / folder / "fake.toml").touch()
            await bench.room.symbols(bench.file(f"{folder}/sub/a.fake"))
        await until(lambda: len(bench.processes()) == 2)
        roots = [Path(one["params"]["rootPath"]).name for one in bench.sent("initialize")]
        assert roots == ["one", "two", "three"]
        assert [state.state for state in bench.room.states()] == ["stopped", "ready", "ready"]


async def test_of_servers_that_are_over_the_last_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module, "MAX_KEPT", 1)
    async with Bench(tmp_path).open() as bench:
        for folder in ("one", "two", "three"):
            (bench.root / folder).mkdir()
            (bench.root / folder / "fake.toml").touch()
            await bench.room.symbols(bench.file(f"{folder}/a.fake"))
            bench.clock.time += IDLE_S
            bench.room.stop_idle()
            await until(lambda: bench.room.states()[-1].state == "stopped" and bench.processes() == [])
        assert len(bench.room.states()) == 2  # the last one that was begun, and one before it


async def test_what_is_busy_does_not_make_room_and_is_not_idle(tmp_path: Path, quick: None) -> None:
    async with Bench(tmp_path, "mute-in-hover", max_servers=1).open() as bench:
        (bench.root / "one").mkdir()
        (bench.root / "one" / "fake.toml").touch()
        async with anyio.create_task_group() as group:
            group.start_soon(bench.room.hover, Spot(bench.file(), 1, 1))
            await until(lambda: bool(bench.sent("textDocument/hover")))
            assert "1 language servers are busy" in await error(bench.room.symbols(bench.file("one/a.fake")))
            bench.clock.time += IDLE_S
            bench.room.stop_idle()
            assert not bench.room._supervisors[("fake", bench.root)].is_over
            group.cancel_scope.cancel()
        await bench.room.symbols(bench.file("one/a.fake"))


async def test_a_server_stops_after_ten_idle_minutes_and_comes_back_when_it_is_wanted(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        await bench.room.symbols(bench.file())
        bench.clock.time += IDLE_S - 1
        bench.room.stop_idle()
        assert bench.room.states()[0].state == "ready"
        bench.clock.time += 1
        bench.room.stop_idle()
        await until(lambda: bench.room.states()[0].state == "stopped")
        await until(lambda: bench.processes() == [])
        assert bench.sent("exit")
        await bench.room.symbols(bench.file())
        assert bench.starts == 2


async def test_nothing_is_left_when_the_room_is_cancelled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "child")
    async with anyio.create_task_group() as group:
        await group.start(bench.room.serve)
        with anyio.fail_after(10):
            await bench.room.symbols(bench.file())
            await until(lambda: len(bench.processes()) == 2)  # the server, and a child in a session of its own
            group.cancel_scope.cancel()
    assert bench.processes() == []
    assert "not available here" in await error(bench.room.symbols(bench.file("b.fake")))


async def test_a_call_that_is_cancelled_tells_the_server(tmp_path: Path, quick: None) -> None:
    async with Bench(tmp_path, "mute-in-hover").open() as bench:
        async with anyio.create_task_group() as group:
            group.start_soon(bench.room.hover, Spot(bench.file(), 1, 1))
            await until(lambda: bool(bench.sent("textDocument/hover")))
            group.cancel_scope.cancel()
        await until(lambda: bool(bench.sent("$/cancelRequest")))
        assert bench.sent("$/cancelRequest")[0]["params"]["id"] == bench.sent("textDocument/hover")[0]["id"]


async def test_secrets_are_withheld(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "MY_API_KEY": "s3cret", "HARMLESS": "1"}
    async with Bench(tmp_path, environ=environ).open() as bench:
        await bench.room.symbols(bench.file())
        (pid,) = bench.processes()
        names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
        assert names & {b"MY_API_KEY", b"HARMLESS"} == {b"HARMLESS"}


KILLED = """
import sys, anyio
from pathlib import Path
from tests.core.test_lsp_room import Bench, until

async def main():
    async with Bench(Path(sys.argv[1]), "child").open() as bench:
        await bench.room.symbols(bench.file())
        await until(lambda: len(bench.processes()) == 2)
        print(*bench.processes(), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_what_a_killed_daemon_left_is_found_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "its").mkdir()
    command = [sys.executable, "-c", KILLED, str(tmp_path / "its")]
    top = PROGRAM.parent.parent
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=top, env={**os.environ, "PYTHONPATH": str(top)}
    ) as killed:
        assert killed.stdout is not None
        pids = [int(pid) for pid in (await to_thread.run_sync(killed.stdout.readline)).split()]
        assert len(pids) == 2
        assert not any(marks._is_orphan(marks._mark_of(pid)) for pid in pids)
        killed.kill()
        killed.wait()
    left = {mark for pid in pids if (mark := marks._mark_of(pid))}
    assert [marks._is_orphan(mark) for mark in left] == [True]  # the server saw its pipe close, its child did not
    for mark in left:
        marks.kill_marked(mark)  # `kill_orphans` would do it, and look at all that other tests do beside this one
    assert not any(marks._mark_of(pid) for pid in pids)


async def test_no_descriptor_is_left_by_a_server(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        await bench.room.symbols(bench.file())
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        async with Bench(tmp_path).open() as bench:
            await bench.room.symbols(bench.file())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
