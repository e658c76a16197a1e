"""A text of any length for a scanner that sees a bounded piece at a time, and its findings made fit for use.

The pieces overlap, so that what lies across a border is whole in one of them.
"""

import re
from collections.abc import Iterable, Sequence

from agentcore.guard.scanning import Finding, Scanner

WINDOW_CHARS = 100_000  # what the contract's 50 ms are for
OVERLAP_CHARS = 8_000  # a PEM key of 8192 bits has 6,400 characters
_BORDER_CHARS = 200  # how far back a space is looked for, so that no window begins inside a number

_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
OTHER = "other"
"""The kind of a finding whose own word is none."""


def scan_all(scanner: Scanner, text: str) -> list[Finding]:
    """What is in the text, in order, without overlaps. Blocking.

    Raises: ValueError for a finding that lies outside of its text, and whatever the scanner raises.
    """
    found, start = list[Finding](), 0
    while start < len(text):
        end = min(len(text), start + WINDOW_CHARS)
        in_window = [_placed(one, start, end) for one in scanner.scan(text[start:end])]
        found += in_window
        if end == len(text):
            break
        start = _next_start(text, start, end, in_window)
    return joined(found)


def joined(found: Iterable[Finding]) -> list[Finding]:
    """In order; what overlaps becomes one finding, of the kind that begins first."""
    result: list[Finding] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        last = result[-1] if result else None
        if last is None or one.start >= last.end:
            result.append(one)
        elif one.end > last.end:
            result[-1] = Finding(last.start, one.end, last.kind)
    return result


def _placed(one: Finding, start: int, end: int) -> Finding:
    if not 0 <= one.start < one.end <= end - start:
        raise ValueError(f"A scanner's finding ({one.start} to {one.end}) is no piece of a text of {end - start}.")
    kind = one.kind if _KIND.fullmatch(one.kind) else OTHER
    return Finding(start + one.start, start + one.end, kind)


def _next_start(text: str, start: int, end: int, found: Sequence[Finding]) -> int:
    """Where the next window begins: before whatever the end of this one may have cut."""
    cut = min((one.start for one in found if one.end == end and one.start > start), default=end)
    wanted = min(cut, end - OVERLAP_CHARS)
    border = max(text.rfind(space, wanted - _BORDER_CHARS, wanted) for space in (" ", "\n"))
    return max(start + 1, wanted if border < 0 else border + 1)
