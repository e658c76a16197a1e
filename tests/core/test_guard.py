"""What the guard does with what a scanner finds, whatever the scanner is."""

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import anyio
import pytest

from agentcore.errors import Unprocessable
from agentcore.events import Notice
from agentcore.guard import guard as guard_module
from agentcore.guard.building import GROUP, make_scanner
from agentcore.guard.builtin import BuiltIn
from agentcore.guard.guard import WITHHELD, WITHHELD_FILE, Clean, Guard, Mode, Redacted, Rejected
from agentcore.guard.scanning import Finding, Scanner
from agentcore.guard.windows import OVERLAP_CHARS, WINDOW_CHARS, scan_all
from agentcore.messages import Block, Document, Image, Text, Thinking, ToolResult
from agentcore.ports.tools import Outcome
from tests.guard_texts import corpus

MAIL = "jane@example.com"
CARD = "4111 1111 1111 1111"
TAG = re.compile(r"\[([A-Z ]+) [0-9a-f]{4} REDACTED\]")
BLOB = "0" * 64
PICTURE = Image(blob=BLOB, media_type="image/png", size_bytes=1, width=1, height=1)
PAPER = Document(blob=BLOB, media_type="application/pdf", size_bytes=1, name="a.pdf")


@dataclass
class Words:
    """Finds certain words; fails on some, and hangs on some until it is let go."""

    words: tuple[str, ...] = ("secret",)
    fails_on: str | None = None
    outside: bool = False

    def scan(self, text: str) -> Sequence[Finding]:
        if self.fails_on is not None and self.fails_on in text:
            raise ValueError("the cause")
        if self.outside:
            return [Finding(0, len(text) + 1, "word")]
        pattern = "|".join(self.words)
        return [Finding(*match.span(), "word") for match in re.finditer(pattern, text)]


class Told(list[Notice]):
    """What was announced."""


def a_guard(mode: Mode = "redact", scanner: Scanner | None = None, told: Told | None = None) -> Guard:
    return Guard(mode, scanner or BuiltIn(), (Told() if told is None else told).append)


def untagged(text: str) -> str:
    return TAG.sub(r"[\1]", text)


# --- prompts and outputs ---


async def test_a_guard_that_is_off_looks_at_nothing() -> None:
    guard = Guard("off", None, Told().append)
    assert await guard.check_prompt(MAIL) == Clean(MAIL)
    assert await guard.check_output(MAIL) == MAIL
    assert await guard.check_summary(MAIL) == MAIL
    assert await guard.check_outcome(Outcome(MAIL, attachments=(PAPER,))) == Outcome(MAIL, attachments=(PAPER,))
    assert await guard.check_blocks((PAPER,)) == Clean((PAPER,))
    assert not guard.is_on


async def test_redact_rewrites_a_prompt_and_an_output() -> None:
    guard = a_guard()
    checked = await guard.check_prompt(f"mail {MAIL}, card {CARD}")
    assert isinstance(checked, Redacted)
    assert untagged(checked.value) == "mail [EMAIL], card [CARD]"
    assert checked.kinds == ("card", "email")
    assert untagged(await guard.check_output(f"it is {MAIL}")) == "it is [EMAIL]"
    assert await guard.check_prompt("nothing") == Clean("nothing")


async def test_reject_denies_a_prompt_and_withholds_an_output() -> None:
    guard = a_guard("reject")
    assert await guard.check_prompt(f"mail {MAIL}") == Rejected(("email",))
    assert await guard.check_output(f"it is {MAIL}") == WITHHELD
    assert await guard.check_output("nothing") == "nothing"


@pytest.mark.parametrize("mode", ["redact", "reject"])
async def test_a_summary_is_rewritten_in_either_mode(mode: Mode) -> None:
    told = Told()
    guard = a_guard(mode, told=told)
    assert untagged(await guard.check_summary(f"They wrote to {MAIL}.")) == "They wrote to [EMAIL]."
    assert await guard.check_summary("fine") == "fine"
    assert len(told) == 1


async def test_the_model_can_tell_two_values_apart_and_knows_one_again() -> None:
    guard, other = a_guard(), a_guard()
    first, again, second = re.findall(
        TAG.pattern.replace("(", "(?:", 1), await guard.check_output(f"{MAIL} {MAIL} x@example.com")
    )
    assert first == again != second
    spaced, dense = await guard.check_output(CARD), await guard.check_output(CARD.replace(" ", ""))
    assert spaced == dense
    assert await other.check_output(CARD) != spaced  # another session's


async def test_redacting_what_was_redacted_changes_nothing() -> None:
    guard = a_guard()
    for case in corpus():
        once = await guard.check_output(case.text)
        assert await guard.check_output(once) == once


async def test_nothing_of_what_was_found_is_left() -> None:
    guard = a_guard()
    scanner = BuiltIn()
    for case in corpus():
        redacted = await guard.check_output(case.text)
        assert [
            case.text[one.start : one.end]
            for one in scanner.scan(case.text)
            if case.text[one.start : one.end] in redacted
        ] == []


# --- the notice ---


async def test_a_run_is_told_once_with_kinds_and_counts_and_never_a_value() -> None:
    told = Told()
    guard = a_guard(told=told)
    guard.begin_run()
    await guard.check_prompt("nothing")
    await guard.check_output(f"{MAIL} x@example.com {CARD}")
    await guard.check_output(MAIL)
    text = "The guard kept from the model: card (1), email (2). What else it finds in this run is not announced."
    assert told == [Notice(level="warning", code="guard_found", text=text)]
    guard.begin_run()
    await guard.check_prompt(MAIL)
    assert len(told) == 2


# --- failures count as a hit ---


@pytest.mark.parametrize("scanner", [Words(fails_on="x"), Words(outside=True)], ids=["raises", "outside"])
async def test_a_scan_that_fails_counts_as_a_hit(scanner: Words, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    assert await a_guard("reject", scanner, told).check_prompt("x") == Rejected(("unscanned",))
    assert await a_guard("redact", scanner).check_prompt("x") == Redacted(WITHHELD, ("unscanned",))
    assert await a_guard("redact", scanner).check_output("x") == WITHHELD
    assert "Traceback" in caplog.text
    assert [(notice.code, "unscanned (1)" in notice.text) for notice in told] == [("guard_found", True)]


async def test_only_the_text_that_could_not_be_scanned_is_withheld() -> None:
    guard = a_guard("redact", Words(fails_on="bad"))
    checked = await guard.check_blocks((Text(text="bad"), Text(text="good")))
    assert checked == Redacted((Text(text=WITHHELD), Text(text="good")), ("unscanned",))


async def test_a_scan_that_does_not_end_counts_as_a_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    class Hangs:
        def scan(self, text: str) -> Sequence[Finding]:
            let_go.wait(10)
            return []

    monkeypatch.setattr(guard_module, "_WINDOW_S", 0.0)
    try:
        assert await a_guard("redact", Hangs()).check_output("x") == WITHHELD
    finally:
        let_go.set()


async def test_a_scan_leaves_the_loop_free_and_a_cancelled_check_does_not_wait_for_it() -> None:
    began, go_on = anyio.Event(), threading.Event()

    class Waits:
        def scan(self, text: str) -> Sequence[Finding]:
            anyio.from_thread.run_sync(began.set)
            go_on.wait(10)
            return []

    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(a_guard("redact", Waits()).check_output, "x")
                await began.wait()
                tasks.cancel_scope.cancel()
    finally:
        go_on.set()


# --- blocks, outcomes, JSON ---


async def test_blocks_of_the_user_are_rewritten_and_the_model_s_own_are_not() -> None:
    thought = Thinking(text=MAIL, signature="seal", provider="p", model="m")
    blocks: tuple[Block, ...] = (Text(text=MAIL), PICTURE, thought, ToolResult(call_id="1", content=f"a {MAIL}"))
    checked = await a_guard().check_blocks(blocks)
    assert isinstance(checked, Redacted)
    text, picture, same, result = checked.value
    assert (picture, same) == (PICTURE, thought)
    assert isinstance(text, Text)
    assert isinstance(result, ToolResult)
    assert (untagged(text.text), untagged(result.content)) == ("[EMAIL]", "a [EMAIL]")
    assert await a_guard("reject").check_blocks(blocks) == Rejected(("email",))
    assert await a_guard("reject").check_blocks((PICTURE, thought)) == Clean((PICTURE, thought))


@pytest.mark.parametrize(
    ("says", "is_withheld"), [("nothing", False), (MAIL, True), (None, True)], ids=["clean", "hit", "unreadable"]
)
async def test_a_document_is_read_and_withheld_as_a_whole(says: str | None, is_withheld: bool) -> None:
    async def text_of(document: Document) -> str:
        if says is None:
            raise OSError("no such blob")
        return says

    guard = Guard("redact", BuiltIn(), Told().append, text_of=text_of)
    checked = await guard.check_blocks((Text(text="see"), PAPER))
    told = Text(text=WITHHELD_FILE) if is_withheld else PAPER
    assert checked.value == (Text(text="see"), told)  # type: ignore[union-attr]  # redact never rejects
    outcome = await guard.check_outcome(Outcome("see", attachments=(PICTURE, PAPER)))
    shown = (PICTURE,) if is_withheld else (PICTURE, PAPER)
    assert outcome == Outcome(f"see\n{WITHHELD_FILE}" if is_withheld else "see", attachments=shown)


async def test_a_document_that_nobody_can_read_is_withheld() -> None:
    assert await a_guard().check_blocks((PAPER,)) == Redacted((Text(text=WITHHELD_FILE),), ("unscanned",))
    assert await a_guard("reject").check_blocks((PAPER,)) == Rejected(("unscanned",))


async def test_an_outcome_is_checked_with_all_that_it_shows() -> None:
    outcome = Outcome(f"to {MAIL}", is_error=True, display=f"+{MAIL}", attachments=(PICTURE,))
    redacted = await a_guard().check_outcome(outcome)
    assert (untagged(redacted.output), untagged(redacted.display or "")) == ("to [EMAIL]", "+[EMAIL]")
    assert (redacted.is_error, redacted.attachments) == (True, (PICTURE,))
    assert await a_guard("reject").check_outcome(outcome) == Outcome(WITHHELD, is_error=True)
    clean = Outcome("fine", display="+fine")
    assert await a_guard("reject").check_outcome(clean) is clean


async def test_a_diff_that_shows_something_is_a_hit_where_the_output_says_nothing() -> None:
    outcome = Outcome("written", display=f"+{MAIL}")
    assert untagged((await a_guard().check_outcome(outcome)).display or "") == "+[EMAIL]"
    assert await a_guard("reject").check_outcome(outcome) == Outcome(WITHHELD)


# --- windows ---


@dataclass
class Recorded:
    """Remembers the lengths of what it was given."""

    scanner: Scanner

    def __post_init__(self) -> None:
        self.sizes: list[int] = []

    def scan(self, text: str) -> Sequence[Finding]:
        self.sizes.append(len(text))
        return self.scanner.scan(text)


@pytest.mark.parametrize("at", range(WINDOW_CHARS - 9, WINDOW_CHARS + 3))
def test_what_lies_across_the_border_of_a_window_is_found_once_and_whole(at: int) -> None:
    text = "." * at + "secret" + "." * WINDOW_CHARS
    scanner = Recorded(Words())
    assert scan_all(scanner, text) == [Finding(at, at + 6, "word")]
    assert max(scanner.sizes) <= WINDOW_CHARS
    assert len(scanner.sizes) == 3


def test_a_finding_that_is_cut_is_seen_whole_by_the_next_window() -> None:
    size = 3 * OVERLAP_CHARS
    start = WINDOW_CHARS - 2 * OVERLAP_CHARS
    text = "." * start + "A" + "s" * (size - 1) + "." * WINDOW_CHARS
    assert scan_all(Words(("As+",)), text) == [Finding(start, start + size, "word")]


def test_no_window_begins_inside_a_number() -> None:
    number = "9" + CARD.replace(" ", "")  # seventeen digits: none; without the first a card
    text = "x" * (WINDOW_CHARS - OVERLAP_CHARS - 2) + f" {number} " + "x" * WINDOW_CHARS
    assert scan_all(BuiltIn(), text) == []


def test_findings_that_overlap_become_one_and_strange_kinds_are_named_other() -> None:
    class Strange:
        def scan(self, text: str) -> Sequence[Finding]:
            return [Finding(4, 8, "a"), Finding(2, 6, "b"), Finding(3, 4, "c"), Finding(9, 10, "x] [y")]

    assert scan_all(Strange(), "0123456789") == [Finding(2, 8, "b"), Finding(9, 10, "other")]


# --- scanners of others ---


class Plugged:
    """What an entry point of a test names."""

    def scan(self, text: str) -> Sequence[Finding]:
        return [Finding(*match.span(), "project") for match in re.finditer("Bluebird", text)]


def entries(*values: str) -> Iterator[EntryPoint]:
    return iter([EntryPoint(f"e{at}", value, GROUP) for at, value in enumerate(values)])


def nothing_installed() -> Iterable[EntryPoint]:
    return ()


def refused() -> Scanner:
    raise RuntimeError("no licence in /home/jane")


def test_scanners_of_others_look_beside_the_built_in_one() -> None:
    scanner = make_scanner("redact", own=[Words()], installed=lambda: entries(f"{__name__}:Plugged"))
    assert scanner is not None
    found = scan_all(scanner, f"{MAIL} secret Bluebird")
    assert [one.kind for one in found] == ["email", "word", "project"]


def test_nothing_is_loaded_while_the_guard_is_off() -> None:
    assert make_scanner("off", installed=lambda: entries("nowhere:Nothing")) is None


@pytest.mark.parametrize("value", ["nowhere:Nothing", f"{__name__}:refused", f"{__name__}:nothing_installed"])
def test_a_scanner_that_cannot_be_made_is_refused_by_name_without_its_cause(value: str) -> None:
    with pytest.raises(Unprocessable) as refusal:
        make_scanner("redact", installed=lambda: entries(value))
    assert "e0" in str(refusal.value)
    assert "jane" not in str(refusal.value)


def test_a_missing_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(known: Iterable[str]) -> Scanner:
        raise ImportError("gone", name="phonenumbers")

    monkeypatch.setattr("agentcore.guard.builtin.BuiltIn", missing)
    with pytest.raises(Unprocessable, match="phonenumbers"):
        make_scanner("reject", installed=nothing_installed)


def test_a_guard_that_is_on_has_a_scanner() -> None:
    with pytest.raises(ValueError, match="exactly when it is on"):
        Guard("redact", None, Told().append)
