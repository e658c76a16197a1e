"""Bytes to messages, and places in texts to places in servers' units."""

import json
import random
from typing import Any

import pytest

from agentcore.lsp.framing import MAX_HEADER_BYTES, BadFrame, FrameReader, framed
from agentcore.lsp.positions import Lines, Overlap, edited

# --- framing ------------------------------------------------------------------------------------------------------

STREAM = [
    (b"Content-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"content-length:2\r\n\r\n{}", [b"{}"]),
    (b"Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"a warning of the launcher's\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n1", [b"", b"1"]),
    (b"Content-Length: 4\r\n\r\n\r\n\r\nContent-Length: 1\r\n\r\n1", [b"\r\n\r\n", b"1"]),
    (b"Content-Length: 5\r\n\r\nhalf", []),
    (b"Content-Len", []),
]


@pytest.mark.parametrize(("stream", "bodies"), STREAM)
def test_bodies_come_out_whole_whatever_the_cut(stream: bytes, bodies: list[bytes]) -> None:
    for size in (1, 2, 3, 7, len(stream)):
        reader = FrameReader()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [body for piece in pieces for body in reader.feed(piece)] == bodies


@pytest.mark.parametrize(
    "stream",
    [
        b"x" * MAX_HEADER_BYTES,
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: two\r\n\r\n",
        b"Content-Length: 1e9\r\n\r\n",
        b"Content-Length: 101\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_is_no_message_or_too_large_is_refused(stream: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader(max_body_bytes=100).feed(stream))


@pytest.mark.parametrize("seed", range(50))
def test_any_messages_survive_any_cuts(seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    messages: list[dict[str, Any]] = [{"method": "m", "params": ["é😀\r\n\r\n" * walk.randrange(9)]} for _ in range(9)]
    stream = b"".join(map(framed, messages))
    reader, bodies = FrameReader(), []
    while stream:
        size = walk.randrange(1, 200)
        bodies += list(reader.feed(stream[:size]))
        stream = stream[size:]
    assert [json.loads(body) for body in bodies] == [{"jsonrpc": "2.0", **one} for one in messages]


@pytest.mark.parametrize("seed", range(50))
def test_noise_is_refused_or_left_waiting_and_is_never_held_without_end(seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    reader, pieces = FrameReader(max_body_bytes=1000), [b"Content-Length: ", b"7", b"\r\n", b"\r\n\r\n", b"{", b"\0x"]
    try:
        for _ in range(5000):
            list(reader.feed(walk.choice(pieces)))
            assert len(reader._held) <= MAX_HEADER_BYTES + 20
    except BadFrame:
        pass


# --- positions ----------------------------------------------------------------------------------------------------

COMBINING = "e\u0301"  # two characters, one letter

PLACES = [
    # text, line, column, in UTF-16, in UTF-8
    ("abc", 1, 1, 0, 0),
    ("abc", 1, 4, 3, 3),
    ("abc", 1, 99, 3, 3),
    ("é=x", 1, 3, 2, 3),
    ("漢字 x", 1, 4, 3, 7),
    ("😀x", 1, 2, 2, 4),
    ("😀😀x", 1, 3, 4, 8),
    (f"{COMBINING}x", 1, 3, 2, 3),
    ("a\r\n😀b\r\nc", 2, 2, 2, 4),
    ("a\n\nb", 2, 1, 0, 0),
    ("a\rb", 2, 2, 1, 1),
    ("", 1, 1, 0, 0),
    ("a\u2028b", 1, 4, 3, 5),  # no line end in the protocol
]


@pytest.mark.parametrize(("text", "line", "column", "utf_16", "utf_8"), PLACES)
def test_columns_are_counted_in_the_servers_units(text: str, line: int, column: int, utf_16: int, utf_8: int) -> None:
    for encoding, units in (("utf-16", utf_16), ("utf-8", utf_8)):
        lines = Lines(text, encoding)
        wire = {"line": line - 1, "character": units}
        assert lines.to_wire(line, column) == wire
        assert lines.from_wire(wire) == (line, min(column, len(lines.line(line)) + 1))


@pytest.mark.parametrize(
    ("position", "place"),
    [
        ({"line": 0, "character": 1}, (1, 1)),  # within a pair
        ({"line": 0, "character": 2}, (1, 2)),
        ({"line": 0, "character": 99}, (1, 3)),
        ({"line": 9, "character": 0}, (2, 3)),
        ({"line": -4, "character": -4}, (1, 1)),
        ({"line": "x"}, (1, 1)),
        (None, (1, 1)),
        ([], (1, 1)),
    ],
)
def test_a_position_that_makes_no_sense_is_the_nearest_place(position: object, place: tuple[int, int]) -> None:
    assert Lines("😀x\nab", "utf-16").from_wire(position) == place


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("seed", range(20))
def test_every_place_comes_back(encoding: str, seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    text = "".join(walk.choice(["a", "é", "漢", "😀", "\u0301", "\n", "\r\n", "\u2028", "\ufeff"]) for _ in range(200))
    lines = Lines(text, encoding)
    for line in range(1, lines.count + 1):
        for column in range(1, len(lines.line(line)) + 2):
            wire = lines.to_wire(line, column)
            assert lines.from_wire(wire) == (line, column)
            before = lines.line(line)[: column - 1]
            size = len(before.encode()) if encoding == "utf-8" else len(before.encode("utf-16-le")) // 2
            assert wire["character"] == size


def edit(line: int, start: int, end: int, text: str) -> dict[str, Any]:
    ends = ({"line": line, "character": at} for at in (start, end))
    return {"range": dict(zip(("start", "end"), ends, strict=True)), "newText": text}


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        ("one\ntwo\n", [edit(1, 0, 3, "2"), edit(0, 0, 3, "1")], "1\n2\n"),
        ("😀 name\r\nname", [edit(0, 3, 7, "n"), edit(1, 0, 4, "n")], "😀 n\r\nn"),
        ("ab", [edit(0, 1, 1, "x"), edit(0, 1, 1, "y")], "axyb"),
        ("ab", [edit(7, 0, 0, "\nend")], "ab\nend"),
        ("ab", [], "ab"),
        ("ab", [{"newText": "x"}], "xab"),
    ],
)
def test_edits_mean_the_text_as_it_was(text: str, edits: list[dict[str, Any]], after: str) -> None:
    assert edited(Lines(text, "utf-16"), edits) == after


@pytest.mark.parametrize("edits", [[edit(0, 0, 2, "x"), edit(0, 1, 2, "y")], [edit(0, 2, 1, "x")]])
def test_edits_that_overlap_are_refused(edits: list[dict[str, Any]]) -> None:
    with pytest.raises(Overlap):
        edited(Lines("abc", "utf-16"), edits)
