"""What may enter the transcript: text without NUL or broken UTF-8, no endless output, no endless nesting."""

import math
import re
from typing import Any, cast

from pydantic import JsonValue

OUTPUT_LIMIT_BYTES = 30_000  # the contract's cap of a result, where a tool declares no other
HARD_LIMIT_BYTES = 256 * 1024  # no tool may declare more
MAX_INPUT_DEPTH = 64  # far beyond any tool; JSON readers stop at 200, and the event around an input adds levels

_UNSAFE = re.compile("[\x00\ud800-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def safe_text(text: str) -> str:
    """Replace what no JSON reader or model service takes: NUL and lone surrogates."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def cap_output(text: str, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> tuple[str, bool]:
    """Keep head and tail of a result above the limit, with a marker between; also say whether it was cut.

    The marker names the original size in bytes and lines. Cuts never fall inside a UTF-8 character.
    """
    text = safe_text(text)
    raw = text.encode()
    limit = min(limit_bytes, HARD_LIMIT_BYTES)
    if len(raw) <= limit:
        return text, False
    half = limit // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore")
    lines = text.count("\n") + 1
    marker = (
        f"\n[… {len(raw) - 2 * half:,} of {len(raw):,} bytes ({lines:,} lines in all) left out here;"
        " ask for a narrower part to see the rest …]\n"
    )
    return head + marker + tail, True


def bounded_input(value: object) -> dict[str, JsonValue] | None:
    """Return the same object if it is a JSON object that can be journaled and read back, else None.

    That is: at most MAX_INPUT_DEPTH objects and lists inside one another, and no text that UTF-8 cannot hold.
    """
    if not isinstance(value, dict):
        return None
    containers: list[Any] = [value]
    for _ in range(MAX_INPUT_DEPTH):
        names = [name for one in containers if isinstance(one, dict) for name in one]
        members = [member for one in containers for member in (one.values() if isinstance(one, dict) else one)]
        if not all(map(_is_text, names)) or not all(map(_is_json, members)):
            return None
        containers = [member for member in members if isinstance(member, dict | list)]
        if not containers:
            return cast(dict[str, JsonValue], value)
    return None


def _is_json(value: object) -> bool:
    """Whether a value is JSON's own; what is inside an object or list is looked at in its turn."""
    match value:
        case str():
            return _is_text(value)
        case float():
            return math.isfinite(value)
        case _:
            return value is None or isinstance(value, int | dict | list)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and (value.isascii() or _LONE_SURROGATE.search(value) is None)
