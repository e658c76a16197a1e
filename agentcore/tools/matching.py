"""Finding and replacing a string in a file's text, and helping when it is not there.

A line feed in the searched string matches either kind of line end; a replacement takes the kind of its file.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from agentcore.caps import safe_text
from agentcore.ports import ToolError
from agentcore.tools.files import MAX_WHOLE_BYTES

MAX_LINES = 10_000
"""Lines that are looked at for the closest place; beyond it the error does without."""
MAX_LINE_CHARS = 200
MAX_SHOWN_LINES = 12
LEAST_RATIO = 0.6
"""Below it the closest line is no help."""

_NEWLINE = r"(?:\r\n|(?<!\r)\n)"  # never the second half of a line end


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> str:
    """Replace the one place (or `everywhere`) where `old` stands. Raises: ToolError, saying what is there instead."""
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change")
    pattern = _pattern(old)
    first = pattern.search(text)
    if first is None:
        raise ToolError(f"old_string was not found. {_closest(text, old)}")
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
    """A sentence with the lines that are most like `old`. The work is bounded by lines and their length."""
    lines = text.replace("\r\n", "\n").split("\n")
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    best = _most_similar(lines[:MAX_LINES], wanted[anchor])
    if best is None:
        return "Nothing in the file is close to it: read the file again."
    start = max(best - anchor, 0)
    shown = lines[start : start + min(len(wanted), MAX_SHOWN_LINES)]
    return f"The closest place is line {start + 1}:\n{_numbered(shown, start + 1)}"


def _most_similar(lines: Iterable[str], wanted: str) -> int | None:
    """The index of the line most like `wanted`, without regard to indentation."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted.strip()[:MAX_LINE_CHARS])
    best, best_ratio = None, LEAST_RATIO
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:MAX_LINE_CHARS])
        if matcher.real_quick_ratio() <= best_ratio or matcher.quick_ratio() <= best_ratio:
            continue
        if (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = index, ratio
    return best


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(
        f"{number:>6}\t{safe_text(line[:MAX_LINE_CHARS])}" for number, line in enumerate(lines, start=first)
    )
