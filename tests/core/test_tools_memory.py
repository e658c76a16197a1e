"""The tool `memory`: notes that outlive a session, and what may stand in them."""

import stat
import threading
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from agentcore.events import Mode
from agentcore.memory import FILE_NAME, MAX_FILE_BYTES, MAX_NOTE_CHARS, SHOWN_LINES, Memory
from agentcore.messages import ToolCall
from agentcore.permissions.decision import Outlook, Stance, judge_call
from agentcore.permissions.facts import Facts
from agentcore.ports.tools import ToolError, ToolRoom
from agentcore.tools.memory import MemoryTool

pytestmark = pytest.mark.anyio


class Bench:
    def __init__(self, base: Path) -> None:
        self.project, self.user = base / "memory/work-1", base / "memory/user"
        self.memory = Memory({"project": self.project, "user": self.user}, known_secrets=("hunter2-the-server-key",))
        self.tool = MemoryTool(self.memory)

    async def call(self, **input: Any) -> str:
        outcome = await self.tool.run(self.tool.spec.input.model_validate(input), ToolRoom("c", lambda text: None))
        return outcome.output

    async def error(self, **input: Any) -> str:
        with pytest.raises(ToolError) as error:
            await self.call(**input)
        return str(error.value)


async def test_notes_are_kept_for_sessions_that_come_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await bench.call(action="view") == "There are no project notes yet."
    await bench.call(action="add", note="Tests run with make.")
    await bench.call(action="add", note="Two\nlines")
    await bench.call(action="add", scope="user", note="Speaks French.")
    later = Bench(tmp_path)
    assert await later.call(action="view") == "About this project:\n- Tests run with make.\n- Two\nlines"
    assert await later.call(action="view", scope="user") == "About the user:\n- Speaks French."
    assert later.memory.index() == (
        "About this project:\n- Tests run with make.\n- Two\n  lines\n\nAbout the user:\n- Speaks French."
    )


async def test_a_note_is_replaced_and_removed_by_words_that_it_alone_has(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for note in ("Tests run with make.", "Docs run with make.", "Two\nlines"):
        await bench.call(action="add", note=note)
    await bench.call(action="replace", old="Tests", note="Tests run with nox.")
    await bench.call(action="remove", old="Two\nlines")
    assert bench.memory.notes("project") == ["Tests run with nox.", "Docs run with make."]
    assert await bench.error(action="remove", old="run with") == (
        "2 notes have these words: give more of the one that you mean."
    )
    assert await bench.error(action="remove", old="cargo") == "No note has these words: view the notes first."
    assert bench.memory.notes("project") == ["Tests run with nox.", "Docs run with make."]


@pytest.mark.parametrize(
    "input",
    [
        {"action": "add"},
        {"action": "add", "note": " "},
        {"action": "replace", "note": "x"},
        {"action": "replace", "old": "x"},
        {"action": "remove"},
        {"action": "forget", "old": "x"},
        {"action": "view", "scope": "world"},
        {"action": "add", "note": "x" * (MAX_NOTE_CHARS + 1)},
        {"action": "add", "note": "\ud800"},
    ],
)
def test_what_says_too_little_is_refused_before_anybody_is_asked(input: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemoryTool.spec.input.model_validate(input)


@pytest.mark.parametrize(
    "note",
    [
        "The key is sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 3,
        "AWS: AKIAIOSFODNN7EXAMPLA",
        "password = 'correct-Horse7battery'",
        "It is hunter2-the-server-key here.",
    ],
)
async def test_no_secret_is_kept(tmp_path: Path, note: str) -> None:
    bench = Bench(tmp_path)
    told = "The note holds what looks like a key or a password: it is not kept. Leave that out."
    assert await bench.error(action="add", note=note) == told
    assert not (bench.project / FILE_NAME).exists()


async def test_a_number_or_an_address_is_no_secret(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.call(action="add", scope="user", note="Reach him at jane@example.com or +1 212 555 0123.")
    assert len(bench.memory.notes("user")) == 1


async def test_the_file_is_the_users_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.call(action="add", note="x")
    assert stat.S_IMODE((bench.project / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(bench.project.stat().st_mode) == 0o700
    assert sorted(path.name for path in bench.project.iterdir()) == ["MEMORY.lock", FILE_NAME]


async def test_notes_are_bounded_and_nothing_is_lost_when_they_are_full(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    while (refused := await full(bench)) is None:
        pass
    assert refused == "The project notes are full (64 KiB): remove or shorten some first."
    assert len((bench.project / FILE_NAME).read_bytes()) <= MAX_FILE_BYTES
    assert len(bench.memory.notes("project")) == 32


async def full(bench: Bench) -> str | None:
    try:
        await bench.call(action="add", note="ab " * 666)
    except ToolError as error:
        return str(error)
    return None


def test_a_fresh_context_begins_with_the_beginning_of_the_notes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.project.mkdir(parents=True)
    (bench.project / FILE_NAME).write_text("".join(f"- note {number}\n" for number in range(250)))
    bench.user.mkdir(parents=True)
    (bench.user / FILE_NAME).write_text(f"- {'y' * 996}\n" * 40)
    project, user = bench.memory.index().split("\n\n")
    assert project.split("\n")[-2:] == [f"- note {SHOWN_LINES - 1}", "[50 more lines: view the project notes]"]
    assert user.split("\n")[-1] == "[15 more lines: view the user notes]"


def test_what_a_person_wrote_into_the_file_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.project.mkdir(parents=True)
    (bench.project / FILE_NAME).write_text("# Build\nmake all\n  twice\n\n- and\x07 this\r\n")
    assert bench.memory.notes("project") == ["# Build", "make all\ntwice", "and this"]
    bench.memory.add("project", "new")
    assert (bench.project / FILE_NAME).read_text() == "# Build\nmake all\n  twice\n- and this\n- new\n"


@pytest.mark.parametrize("size", [MAX_FILE_BYTES + 1, 1 << 30])
async def test_a_file_that_is_too_large_is_told_and_not_touched(tmp_path: Path, size: int) -> None:
    bench = Bench(tmp_path)
    bench.project.mkdir(parents=True)
    with (bench.project / FILE_NAME).open("wb") as file:
        file.truncate(size)
    assert "cannot be read" in await bench.error(action="view")
    assert "cannot be read" in await bench.error(action="add", note="x")
    assert (bench.memory.index(), (bench.project / FILE_NAME).stat().st_size) == ("", size)


def test_sessions_that_write_at_once_lose_no_note(tmp_path: Path) -> None:
    benches = [Bench(tmp_path) for _ in range(4)]
    start = threading.Barrier(len(benches))

    def write(bench: Bench, number: int) -> None:
        start.wait()
        for index in range(5):
            bench.memory.add("project", f"note {number} {index}")

    threads = [threading.Thread(target=write, args=(bench, number)) for number, bench in enumerate(benches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(f"note {number} {index}" for number in range(4) for index in range(5))
    assert sorted(benches[0].memory.notes("project")) == expected


@pytest.mark.parametrize(
    ("mode", "outlook"), [("default", Outlook.ASK), ("plan", Outlook.DENY), ("deny", Outlook.DENY)]
)
def test_a_change_asks_like_any_change(mode: Any, outlook: Outlook) -> None:
    call = ToolCall(id="c", name="memory", input={"action": "add", "note": "x"})
    assert judge_call(call, MemoryTool.spec, Facts(), Stance(mode=mode)).outlook is outlook


@pytest.mark.parametrize("mode", get_args(Mode))
def test_to_view_the_notes_asks_nobody(mode: Mode) -> None:
    call = ToolCall(id="c", name="memory", input={"action": "view"})
    assert judge_call(call, MemoryTool.spec, Facts(), Stance(mode=mode)).outlook is Outlook.ALLOW


def test_a_person_sees_what_would_change() -> None:
    tool, model = MemoryTool(Memory({})), MemoryTool.spec.input.model_validate
    assert tool.preview(model({"action": "replace", "old": "a\nb", "note": "c"})) == "- a\n- b\n+ c"
    assert tool.preview(model({"action": "add", "note": "c"})) == "+ c"
    assert tool.preview(model({"action": "remove", "old": "a"})) == "- a"
    assert tool.preview(model({"action": "view"})) is None
