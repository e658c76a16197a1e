"""The splitter of Ollama's answers: bytes in any pieces, one JSON object a line."""

import pytest

from agentcore.providers.ollama import lines
from agentcore.providers.ollama.lines import LineSplitter
from agentcore.providers.sse import OversizedEvent

TEXT = '{"a":"grüße"}\n\r\n  \n{"b":[1,2]}\r\n{"c":"🦜"}'.encode()
LINES = ['{"a":"grüße"}'.encode(), b'{"b":[1,2]}']
LAST = '{"c":"🦜"}'.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 1000])
def test_lines_come_out_whole_however_they_are_cut(size: int) -> None:
    splitter = LineSplitter()
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    assert [line for piece in pieces for line in splitter.feed(piece)] == LINES
    assert splitter.finish() == LAST
    assert splitter.finish() is None


def test_every_cut_in_two_gives_the_same() -> None:
    for cut in range(len(TEXT)):
        splitter = LineSplitter()
        assert splitter.feed(TEXT[:cut]) + splitter.feed(TEXT[cut:]) == LINES
        assert splitter.finish() == LAST


@pytest.mark.parametrize("rest", [b"", b" \r", b'{"a":', b'{"a":1} x', '{"a":"ü'.encode()[:-1]])
def test_a_last_line_that_is_not_whole_is_none(rest: bytes) -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"{}\n" + rest) == [b"{}"]
    assert splitter.finish() is None


def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_EVENT_BYTES", 100)
    splitter = LineSplitter()
    assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\n") == [b"x" * 100]
    with pytest.raises(OversizedEvent):
        splitter.feed(b"x" * 101)
