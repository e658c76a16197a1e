"""Where Markdown is code: an `@` in there is no mention and no import."""

import re
from bisect import bisect_right
from collections.abc import Iterator

_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})(.*)")
_TICKS = re.compile(r"`+")


def code_spans(text: str) -> list[tuple[int, int]]:
    """Places (start, end) of code blocks between fences and of code between ticks, in order."""
    spans, start, plain_from = list[tuple[int, int]](), 0, 0
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence and found is not None and not (found[1][0] == "`" and "`" in found[2]):
            spans += _between_ticks(text, plain_from, start)
            fence, plain_from = found[1], start
        elif fence and found is not None and found[1].startswith(fence) and not found[2].strip():
            spans.append((plain_from, start + len(line)))
            fence, plain_from = "", start + len(line)
        start += len(line) + 1
    return [*spans, (plain_from, len(text))] if fence else [*spans, *_between_ticks(text, plain_from, len(text))]


def _between_ticks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Runs of ticks, each with the next one of its length in the same paragraph."""
    runs = list(_TICKS.finditer(text, start, end))
    following: dict[int, list[int]] = {}
    for index in range(len(runs) - 1, -1, -1):
        following.setdefault(len(runs[index][0]), []).append(index)  # the nearest is last
    index = 0
    while index < len(runs):
        run = runs[index]
        same = following[len(run[0])]
        while same and same[-1] <= index:
            same.pop()
        if same and text.find("\n\n", run.end(), runs[same[-1]].start()) < 0:
            index = same[-1]
            yield run.start(), runs[index].end()
        index += 1


def outside(place: int, spans: list[tuple[int, int]]) -> bool:
    """Whether a place is in none of the spans."""
    found = bisect_right(spans, (place, 1 << 62))
    return found == 0 or place >= spans[found - 1][1]
