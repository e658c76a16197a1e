"""A message as a server wrote it, read once more where the SDK's parser has refused it.

Node and Python write half a surrogate pair as `\\ud83d`, and a schema may be deeper than that parser goes. Promise: who
asked for what cannot be used all the same does not wait in vain.
"""

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

UNREADABLE = "it sent an answer that cannot be read"
_HEX = rb"[0-9a-fA-F]"
_ESCAPE = re.compile(
    rb"(?P<whole>\\u[dD][89abAB]%(hex)s{2}\\u[dD][c-fC-F]%(hex)s{2})"
    rb"|(?P<open>(?:\\u[dD][89abAB]%(hex)s{2})?\\(?:u%(hex)s{0,3})?\Z|\\u[dD][89abAB]%(hex)s{2}\Z)"
    rb"|(?P<half>\\u[dD][89a-fA-F]%(hex)s{2})"
    rb"|\\." % {b"hex": _HEX},
    re.DOTALL,
)
"""In this order: a pair, what may go on in the next piece, half a pair, any other escape (so that `ud83d` behind a
backslash that is escaped is not taken for a half)."""
_INSTEAD = rb"\ufffd"
_ID = r'"id"\s*:\s*(-?[0-9]{1,18}|"([^"\\]{1,200})")'
_BEGINS = re.compile(rf'\s*\{{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?{_ID}\s*,\s*"(?:result|error)"')
_ENDS = re.compile(rf',\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*{_ID}\s*\}}\s*\Z')
"""An answer by its beginning, or by its end: the two orders in which they are written."""
_END_CHARS = 400


class Mending:
    """JSON that comes in pieces, with U+FFFD for half a surrogate pair."""

    def __init__(self) -> None:
        self._open = b""
        """The beginning of an escape, which the next piece may go on with."""

    def feed(self, piece: bytes) -> bytes:
        data, self._open = self._open + piece, b""
        return _ESCAPE.sub(self._mended, data)

    def end(self) -> bytes:
        """What is left."""
        rest, self._open = self._open, b""
        return rest

    def _mended(self, found: re.Match[bytes]) -> bytes:
        if found.lastgroup == "open":
            self._open = found[0]
            return b""
        return _INSTEAD if found.lastgroup == "half" else found[0]


def is_worth_it(line: bytes) -> bool:
    """Whether a line that was refused may be a message; most of what programs print there is none."""
    return line.lstrip()[:1] == b"{"


def read_again(line: bytes) -> "JSONRPCMessage | None":
    """The message, mended; an error in the place of an answer that cannot be used; None for what nobody waits for. Slow
    for a large one: a worker's work."""
    from mcp_types import jsonrpc_message_adapter

    mending = Mending()
    text = (mending.feed(line) + mending.end()).decode(errors="replace")
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return _read_answer(text)


def _read_answer(text: str) -> "JSONRPCMessage | None":
    """An answer that is nested more deeply than the SDK's parser goes; what a server asks is not read so."""
    from mcp_types import jsonrpc_message_adapter

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        answered = _BEGINS.match(text) or _ENDS.search(text, max(0, len(text) - _END_CHARS))
        return None if answered is None else _refusal(answered[2] or int(answered[1]))
    if not isinstance(found, dict) or "method" in found or not {"jsonrpc", "result", "error"} & found.keys():
        return None
    try:
        return jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValueError:
        return _refusal(found.get("id"))


def _refusal(id: object) -> "JSONRPCMessage | None":
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

    if not isinstance(id, int | str) or isinstance(id, bool):
        return None
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=UNREADABLE))
