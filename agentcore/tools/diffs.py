"""Unified diffs with bounded work and bounded size, for people who approve or follow an edit."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from agentcore.caps import safe_text

MAX_COMPARED = 4_000_000
"""Pairs of lines; a larger changed region is shown as replaced as a whole."""
MAX_DIFF_LINES = 1_000
MAX_DIFF_CHARS = 64 * 1024
CONTEXT = 3

Opcode = tuple[str, int, int, int, int]


def unified_diff(before: str | None, after: str, path: str) -> str:
    """The change from `before` (None: the file is new) to `after`; empty when there is none.

    Line endings are left out of the comparison: tools keep them.
    """
    old, new = _lines(before or ""), _lines(after)
    body = [line for hunk in _hunks(old, new) for line in hunk]
    if not body:
        return ""
    head = ["--- /dev/null" if before is None else f"--- a/{path}", f"+++ b/{path}"]
    return safe_text("\n".join([*head, *_bounded(body)]) + "\n")


def _lines(text: str) -> list[str]:
    """Lines without their ends; a last line that has no end carries diff's own remark."""
    lines = text.replace("\r\n", "\n").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[str]]:
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        yield [
            f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@",
            *(line for opcode in group for line in _changes(opcode, old, new)),
        ]


def _changes(opcode: Opcode, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    tag, old_from, old_to, new_from, new_to = opcode
    if tag == "equal":
        yield from (f" {line}" for line in old[old_from:old_to])
        return
    yield from (f"-{line}" for line in old[old_from:old_to])
    yield from (f"+{line}" for line in new[new_from:new_to])


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """Changed regions with their context. Equal ends are taken off first: most edits touch a few lines."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    start = max(head - CONTEXT, 0)
    old_end, new_end = len(old) - max(tail - CONTEXT, 0), len(new) - max(tail - CONTEXT, 0)
    if (old_end - start) * (new_end - start) > MAX_COMPARED:
        yield [("replace", head, len(old) - tail, head, len(new) - tail)]
        return
    matcher = SequenceMatcher(None, old[start:old_end], new[start:new_end])
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in group]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many leading lines are the same."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}"


def _bounded(lines: list[str]) -> list[str]:
    """Keep the first lines within both bounds and say how many are missing."""
    kept: list[str] = []
    size = 0
    for line in lines[:MAX_DIFF_LINES]:
        size += len(line) + 1
        if size > MAX_DIFF_CHARS:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return [*kept, f"[{left} more lines of the diff not shown]"] if left else kept
