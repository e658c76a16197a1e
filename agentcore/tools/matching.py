"""Finding and replacing a string in a file's text, and helping when it is not there.

A line feed in the searched string matches either kind of line end; a replacement takes the kind of its file.
"""

import heapq
import re
import time
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from operator import add

from agentcore.caps import safe_text
from agentcore.files import MAX_WHOLE_BYTES
from agentcore.ports.tools import ToolError

MAX_LINES = 10_000
"""Lines that are looked at for the closest place; beyond it the error does without."""
MAX_LINE_CHARS = 200
MAX_SHOWN_LINES = 12
MAX_COMPARED_CHARS = 80
"""Of a line, when it is compared: the work grows with the square of it."""
MAX_CANDIDATES = 20
"""Lines that are compared in full: those that share the most pairs of characters."""
SEARCH_S = 0.1
"""Processor time after which the search gives up; its thread cannot be cancelled."""
LEAST_RATIO = 0.6
"""Below it the closest line is no help."""

_NEWLINE = r"(?:\r\n|(?<!\r)\n)"  # never the second half of a line end


def replace_text(text: str, old: str, new: str, *, everywhere: bool, is_hinted: bool = True) -> str:
    """Replace the one place (or `everywhere`) where `old` stands.

    Raises: ToolError; when `is_hinted` it says what is there instead, which takes up to `SEARCH_S`.
    """
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change")
    pattern = _pattern(old)
    first = pattern.search(text)
    if first is None:
        hint = f" {_closest(text, old)}" if is_hinted else ""
        raise ToolError(f"old_string was not found.{hint}")
    replacement = with_newlines_of(text, new)
    if everywhere:
        _demand_bounded(text, pattern, replacement)
        return pattern.sub(lambda _: replacement, text)
    if pattern.search(text, first.start() + 1):
        count = sum(1 for _ in pattern.finditer(text))
        raise ToolError(
            f"old_string is not unique: it was found {max(count, 2)} times. "
            "Add surrounding lines to it, or set replace_all."
        )
    return text[: first.start()] + replacement + text[first.end() :]


def with_newlines_of(model: str, text: str) -> str:
    """Give `text` the line ends that most lines of `model` have."""
    text = text.replace("\r\n", "\n")
    is_crlf = model.count("\r\n") * 2 > model.count("\n")
    return text.replace("\n", "\r\n") if is_crlf else text


def _pattern(old: str) -> re.Pattern[str]:
    lines = old.replace("\r\n", "\n").split("\n")
    return re.compile(_NEWLINE.join(map(re.escape, lines)))


def _demand_bounded(text: str, pattern: re.Pattern[str], replacement: str) -> None:
    count = sum(1 for _ in pattern.finditer(text))
    if len(text) + count * len(replacement) > MAX_WHOLE_BYTES:
        raise ToolError(f"replacing all {count} places would make the file too large")


def _closest(text: str, old: str) -> str:
    """A sentence with the lines that are most like `old`. Bounded in work and time."""
    lines = text.replace("\r\n", "\n").split("\n")
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    try:
        best = _most_similar(lines[:MAX_LINES], wanted[anchor].strip()[:MAX_COMPARED_CHARS], _deadline(SEARCH_S))
    except TimeoutError:
        return "No close place was found in the time for it: read the file again."
    if best is None:
        return "Nothing in the file is close to it: read the file again."
    start = max(best - anchor, 0)
    shown = lines[start : start + min(len(wanted), MAX_SHOWN_LINES)]
    return f"The closest place is line {start + 1}:\n{_numbered(shown, start + 1)}"


def _deadline(limit_s: float) -> Callable[[], None]:
    """A check that raises TimeoutError once this thread has worked for `limit_s` more."""
    end = time.thread_time() + limit_s

    def check() -> None:
        if time.thread_time() > end:
            raise TimeoutError

    return check


def _most_similar(lines: Sequence[str], wanted: str, check: Callable[[], None]) -> int | None:
    """The index of the line most like `wanted`, without regard to indentation. Raises: TimeoutError, by `check`."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best, best_ratio = None, LEAST_RATIO
    for _, negative in heapq.nlargest(MAX_CANDIDATES, _scores(lines, wanted, check)):
        check()
        matcher.set_seq1(_compared(lines[-negative]))
        if matcher.quick_ratio() > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = -negative, ratio
    return best


def _scores(lines: Sequence[str], wanted: str, check: Callable[[], None]) -> Iterator[tuple[float, int]]:
    """How many pairs of characters each line shares, for the lines of a fitting length, and its negative index."""
    pairs = _pairs(wanted)
    shortest = len(wanted) * LEAST_RATIO / (2 - LEAST_RATIO)  # a shorter one cannot reach the ratio
    longest = len(wanted) * (2 - LEAST_RATIO) / LEAST_RATIO
    for index, line in enumerate(lines):
        check()
        compared = _compared(line)
        if not shortest <= len(compared) <= longest:
            continue
        found = _pairs(compared)
        if shared := len(pairs & found):
            yield 2 * shared / (len(pairs) + len(found)), -index


def _compared(line: str) -> str:
    return line.strip()[:MAX_COMPARED_CHARS]


def _pairs(line: str) -> set[str]:
    return set(map(add, line, line[1:]))


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(
        f"{number:>6}\t{safe_text(line[:MAX_LINE_CHARS])}" for number, line in enumerate(lines, start=first)
    )
