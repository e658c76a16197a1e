"""What a load refuses, no other reader passes over: nothing of a history is dropped silently, or told to a log."""

import json
import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.errors import AgentError, JournalDamaged
from agentcore.redaction import Redactor
from agentcore.sessions import segments as segments_module
from agentcore.sessions.store import SessionStore
from tests.core.test_sweep import closed
from tests.fakes import FakeClock, House, call, house, say, use

pytestmark = pytest.mark.anyio

READERS: dict[str, Callable[[SessionStore, str], object]] = {
    "open": lambda store, session: store.open(session).log.close(),
    "display": lambda store, session: store.display(session, None, 0, None),
    "jsonl": lambda store, session: list(store.export(session, None, "jsonl", Redactor(()))),
    "markdown": lambda store, session: list(store.export(session, None, "markdown", Redactor(()))),
    "fork": lambda store, session: store.fork(session, None, None, {})[0].log.close(),
}


async def story(home: House) -> Path:
    """The folder of a session in which there was a little of everything; nobody holds it."""
    live = await home.session(mode="yolo")
    home.provider.script(use(call("ls")), say("Two words."), say("More."))
    await home.run(live, "begin")
    live.clear()
    await home.run(live, "go on")
    await home.hub.close(live, "deleted")
    [directory] = (home.root / "data" / "sessions").glob(f"*/{live.id}")
    return directory


def refused(directory: Path) -> dict[str, str]:
    """What each reader raises: the code, "" for nothing. No error may hold what is in the journal."""
    store, told = SessionStore(directory.parent.parent, (Path("/"),), FakeClock()), dict[str, str]()
    quoted = False
    before = {path.name for path in directory.parent.iterdir()}
    for name, read in READERS.items():
        kept = shutil.copytree(directory, directory.with_name("kept"))
        try:
            read(store, directory.name)
            told[name] = ""
        except AgentError as error:
            told[name] = error.code
            quoted |= "input_value" in "".join(traceback.format_exception(error))
        shutil.rmtree(directory)
        kept.rename(directory)  # opening writes
        for made in {path.name for path in directory.parent.iterdir()} - before:
            shutil.rmtree(directory.parent / made)
    assert not quoted, "an error holds what a person said"
    return told


NEEDED = {
    "meta": b'"cwd":',
    "user_message": b'"content":',
    "assistant_message": b'"message":',
    "tool_end": b'"call_id":',
}
"""A field without which a line makes no sense."""
EVERYBODY = dict.fromkeys(READERS, "journal_damaged")
NOBODY = dict.fromkeys(READERS, "")


@pytest.mark.parametrize("cut", ["20 bytes", "half", "empty", "another form"])
async def test_a_line_that_cannot_be_read_is_named_by_every_reader(tmp_path: Path, cut: str) -> None:
    async with house(tmp_path) as home:
        directory = await story(home)
    path = directory / "journal.jsonl"
    lines = path.read_bytes().splitlines()
    assert refused(directory) == NOBODY
    for number, line in enumerate(lines[:-1]):
        kind = json.loads(line)["type"]
        if cut == "another form" and kind not in NEEDED:
            continue
        damaged = {
            "20 bytes": line[:20],
            "half": line[: len(line) // 2],
            "empty": b"",
            "another form": line.replace(NEEDED.get(kind, b"{"), b'"c":'),
        }[cut]
        path.write_bytes(b"\n".join([*lines[:number], damaged, *lines[number + 1 :], b""]))
        if number:
            assert refused(directory) == EVERYBODY, kind
        else:
            assert set(refused(directory).values()) <= {"journal_damaged", "not_found"}
            assert "" not in refused(directory).values()


async def test_a_journal_of_a_newer_format_is_read_by_nobody(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        directory = await story(home)
    path = directory / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":99', 1))
    assert refused(directory) == EVERYBODY


def segments(directory: Path, text: str) -> None:
    (directory / "segments.json").write_text(text)


def two(directory: Path, size: int) -> None:
    segments(directory, json.dumps({"sizes": [size]}))
    (directory / "journal.2.jsonl").write_bytes(b"")


FILES: dict[str, Callable[[Path], object]] = {
    "the second file is missing": lambda path: segments(
        path, json.dumps({"sizes": [(path / "journal.jsonl").stat().st_size]})
    ),
    "an end in a line": lambda path: two(path, (path / "journal.jsonl").stat().st_size - 5),
    "an end in the first line": lambda path: two(path, 5),
    "an end behind the file": lambda path: two(path, 99_999_999),
    "an end behind everything": lambda path: two(path, 10**27),
    "no ends": lambda path: segments(path, "{}"),
    "a folder for the ends": lambda path: (path / "segments.json").mkdir(),
    "lines that nothing tells of": lambda path: (path / "journal.2.jsonl").write_bytes(b'{"type":"x"}\n'),
}


@pytest.mark.parametrize("damage", FILES)
async def test_files_that_do_not_fit_are_refused_by_every_reader(tmp_path: Path, damage: str) -> None:
    async with house(tmp_path) as home:
        directory = await story(home)
    FILES[damage](directory)
    told = refused(directory)
    if damage == "the second file is missing":
        assert told.pop("open") in ("storage_unavailable", "journal_damaged")
        assert set(told.values()) == {"journal_damaged"}
    else:
        assert told == EVERYBODY


async def test_what_a_cut_takeover_left_is_no_damage(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        directory = await story(home)
    (directory / "journal.2.jsonl").write_bytes(b"")
    assert refused(directory) == NOBODY


async def test_a_takeover_between_two_looks_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looked for the ends before the rename finds lines that nothing told of; the second look tells."""
    async with house(tmp_path) as home:
        directory = await story(home)
    size = (directory / "journal.jsonl").stat().st_size
    two(directory, size)
    (directory / "journal.2.jsonl").write_bytes(b'{"type":"x"}\n')
    real, too_early = segments_module.fixed_sizes, [()]
    monkeypatch.setattr(segments_module, "fixed_sizes", lambda folder: too_early.pop() if too_early else real(folder))
    assert [one.size for one in segments_module.segments_of(directory / "journal.jsonl")] == [size, None]


async def test_the_line_is_named(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        directory = await story(home)
        path = directory / "journal.jsonl"
        lines = path.read_bytes().splitlines()
        number = next(n for n, line in enumerate(lines, 1) if line.startswith(b'{"type":"user_message"'))
        path.write_bytes(b"\n".join([*lines[: number - 1], lines[number - 1][:20], *lines[number:], b""]))
        for read in (home.app.display(directory.name), home.app.fork(directory.name, None, None, {}, None)):
            with pytest.raises(JournalDamaged, match=f"Line {number} "):
                await read


async def test_the_list_names_the_sessions_that_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(tmp_path) as home:
        damaged = [await story(home) for _ in range(5)]
        whole, begun = await story(home), await story(home)
        two(damaged[0], 5)
        (damaged[1] / "journal.jsonl").write_bytes(b"garbage\n")
        (damaged[2] / "journal.jsonl").rename(damaged[2] / "aside")
        os.mkfifo(damaged[2] / "journal.jsonl")
        segments(damaged[3], json.dumps({"sizes": [(damaged[3] / "journal.jsonl").stat().st_size]}))
        closed(damaged[4], monkeypatch)
        (begun / "journal.jsonl").write_bytes(b'{"type":"me')
        for _ in range(2):
            assert [summary.id for summary in await home.app.summaries()] == [whole.name]
            assert home.app.unreadable_sessions == tuple(sorted(path.name for path in damaged))
        monkeypatch.undo()
        (damaged[0] / "segments.json").unlink()
        assert {summary.id for summary in await home.app.summaries()} == {whole.name, damaged[0].name, damaged[4].name}
        assert home.app.unreadable_sessions == tuple(sorted(path.name for path in damaged[1:4]))
