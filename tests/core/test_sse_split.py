"""The splitter gives the same events however the bytes are cut, and whatever ends the lines."""

import random

import pytest

from agentcore.providers import sse
from agentcore.providers.sse import OversizedEvent, SseSplitter

STREAM = (
    ": a comment first\n\n"
    'event: message_start\ndata: {"type":"a"}\n\n'
    'data:{"no":"space"}\n\n'
    "event: only a name\n\n"
    "id: 7\nretry: 10\ndata: two\ndata: lines\n\n"
    "\n\n"
    "data: grüße 🦜 \u2028 end\nevent: after\n\n"
    ": keep-alive\ndata: commented\n: again\n\n"
    "data\n\n"
    "datum: unknown field\n\n"
    "data:  one space stays\n\n"
)
EVENTS = [
    b'{"type":"a"}',
    b'{"no":"space"}',
    b"two\nlines",
    "grüße 🦜 \u2028 end".encode(),
    b"commented",
    b" one space stays",
]
LINE_ENDS = ["\n", "\r\n", "\r"]


def split(pieces: list[bytes]) -> list[bytes]:
    splitter = SseSplitter()
    return [data for piece in pieces for data in splitter.feed(piece)]


@pytest.mark.parametrize("line_end", LINE_ENDS, ids=["lf", "crlf", "cr"])
def test_every_two_pieces_give_the_same_events(line_end: str) -> None:
    raw = STREAM.replace("\n", line_end).encode()
    for cut in range(len(raw) + 1):
        assert split([raw[:cut], raw[cut:]]) == EVENTS, cut


@pytest.mark.parametrize("line_end", LINE_ENDS, ids=["lf", "crlf", "cr"])
def test_single_bytes_and_random_pieces_give_the_same_events(line_end: str) -> None:
    raw = STREAM.replace("\n", line_end).encode()
    assert split([raw[at : at + 1] for at in range(len(raw))]) == EVENTS
    for seed in range(200):
        cuts = sorted(random.Random(seed).choices(range(len(raw)), k=9))
        pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        assert split(pieces) == EVENTS, seed


def test_mixed_line_ends_in_one_stream() -> None:
    assert split([b"data: a\r\n\ndata: b\r\rdata: c\n\r\n"]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("cut", range(5))
def test_a_byte_order_mark_is_no_part_of_the_first_line(cut: int) -> None:
    raw = b"\xef\xbb\xbfdata: a\n\ndata: b\n\n"
    assert split([raw[:cut], raw[cut:]]) == [b"a", b"b"]


def test_an_event_is_handed_out_with_its_last_byte() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\r\n\r") == [b"a"]
    assert splitter.feed(b"\ndata: b\n") == []
    assert splitter.feed(b"\n") == [b"b"]


@pytest.mark.parametrize(
    ("rest", "last"),
    [
        (b'data: {"type":"message_stop"}', b'{"type":"message_stop"}'),
        (b'event: x\r\ndata: {"a":1}\r\n', b'{"a":1}'),
        (b'data: {"a":1', None),
        (b'data: {"a":1}}', None),
        (b'{\n  "error": {"code": 503}\n}\n', b'{\n  "error": {"code": 503}\n}'),
        (b'{"error": {"code": 50', None),
        (b"data: [DONE] ", b"[DONE] "),
        (b"event: message_stop\ndat", None),
        (b": comment", None),
        (b"", None),
    ],
)
def test_a_last_event_without_its_blank_line_counts_if_its_json_is_whole(rest: bytes, last: bytes | None) -> None:
    splitter = SseSplitter()
    assert splitter.feed(b'data: {"first":0}\n\n' + rest) == [b'{"first":0}']
    assert splitter.finish() == last
    assert splitter.finish() is None


def test_a_json_object_without_data_is_handed_out() -> None:
    raw = b'data: {"a":1}\n\n{"error":\n "x"}\n\n{"a": 1\n\n: {}\n\n'
    assert split([raw]) == [b'{"a":1}', b'{"error":\n "x"}']


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    splitter = SseSplitter()
    splitter.feed(b"data: " + b"x" * 94)
    with pytest.raises(OversizedEvent):
        splitter.feed(b"x")
