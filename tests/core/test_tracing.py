"""Traces: requests are put together again as they were sent, and what happened is told as a story."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcore.redaction import Redactor
from agentcore.tracing import recorder as recording
from agentcore.tracing.keeping import prune
from agentcore.tracing.outline import outline
from agentcore.tracing.page import render
from agentcore.tracing.recorder import Recorder
from agentcore.tracing.requests import FILE_NAME, Deltas, Line, Request, read_lines, restored
from agentcore.tracing.timeline import Node, news, tell
from agentcore.wiretap import Sent, listening, speaking_as
from agentcore.wiretap import tell as tell_sent
from tests.fakes import FakeClock

KEY = "sk-ant-api03-AbCd1234EfGh5678IjKl"


def recorder(path: Path, *, secrets: tuple[str, ...] = ()) -> Recorder:
    return Recorder(path / FILE_NAME, FakeClock(), lambda: 7, Redactor(secrets))


def read_requests(path: Path) -> list[Request]:
    return list(restored(read_lines(path)))


def sent(body: str, address: str = "http://here/v1", **headers: str) -> Sent:
    return Sent(address, headers, body.encode())


# --- requests ---


@given(st.lists(st.text(alphabet="ab{}é", max_size=12), max_size=8))
def test_every_request_is_put_together_again(bodies: list[str]) -> None:
    writing, reading = Deltas(), Deltas()
    for body in bodies:
        head, tail, text = writing.shorten("x", None, body)
        line = _line(head=head, tail=tail, text=text)
        assert reading.restore(line) == body


def _line(**given: Any) -> Line:
    return Line.model_validate({"at": 0, "after_seq": 0, "address": "x", "headers": {}, **given})


def test_a_conversation_is_kept_once_however_often_it_is_sent(tmp_path: Path) -> None:
    record, said = recorder(tmp_path), ["x" * 10_000]
    bodies = []
    for number in range(20):
        said.append(f"message {number}")
        bodies.append(json.dumps({"messages": said, "max_tokens": 5}))
        record(sent(bodies[-1]))
    assert [request.body for request in read_requests(tmp_path / FILE_NAME)] == bodies
    assert (tmp_path / FILE_NAME).stat().st_size < 20_000
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_addresses_and_subagents_are_told_apart(tmp_path: Path) -> None:
    with listening(recorder(tmp_path)):
        tell_sent(lambda: sent('"a"'))
        with speaking_as("explore-1"):
            tell_sent(lambda: sent('"b"'))
        tell_sent(lambda: sent('"c"', "http://there"))
        tell_sent(lambda: sent('"ad"'))
    found = [(one.agent, one.address, one.body) for one in read_requests(tmp_path / FILE_NAME)]
    assert found == [
        (None, "http://here/v1", '"a"'),
        ("explore-1", "http://here/v1", '"b"'),
        (None, "http://there", '"c"'),
        (None, "http://here/v1", '"ad"'),
    ]


def test_credentials_are_not_written(tmp_path: Path) -> None:
    own = 'own "secret" of the process'
    headers = {"Authorization": f"Bearer {KEY}", "X-Api-Key": own, "Content-Type": "application/json"}
    recorder(tmp_path, secrets=(own,))(Sent("http://here", headers, json.dumps({"a": [own, KEY]}).encode()))
    [request] = read_requests(tmp_path / FILE_NAME)
    assert json.loads(request.body) == {"a": ["[redacted]", "[redacted]"]}
    assert request.headers == {
        "authorization": "[redacted]",
        "x-api-key": "[redacted]",
        "content-type": "application/json",
    }


def test_a_line_that_is_cut_is_left_out_and_loses_nothing_beside_it(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    record(sent('"a"'))
    record(sent('"b"'))
    file = tmp_path / FILE_NAME
    file.write_bytes(file.read_bytes()[:-5])  # as a SIGKILL leaves it
    again = recorder(tmp_path)
    again(sent('"c"'))
    again(sent('"cd"'))
    assert [request.body for request in read_requests(file)] == ['"a"', '"c"', '"cd"']
    assert read_requests(tmp_path / "none") == []


def test_what_a_full_disk_took_half_of_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, whole = recorder(tmp_path), os.write
    record(sent('"a"'))
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:10]))
    record(sent('"b"'))
    monkeypatch.undo()
    record(sent('"c"'))  # it has ended
    assert (tmp_path / FILE_NAME).read_bytes().count(b"\n") == 1
    assert [request.body for request in read_requests(tmp_path / FILE_NAME)] == ['"a"']


def test_a_key_in_an_address_is_not_written(tmp_path: Path) -> None:
    recorder(tmp_path)(sent('"a"', f"http://here/{KEY}/v1"))
    assert KEY not in (tmp_path / FILE_NAME).read_text()


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_BYTES", 400)
    record = recorder(tmp_path)
    record(sent('"a"'))
    record(sent(json.dumps("b" * 400)))
    record(sent('"c"'))  # it would fit, and means nothing without the one before it
    assert [request.body for request in read_requests(tmp_path / FILE_NAME)] == ['"a"']


def test_what_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    record = recorder(tmp_path / "nowhere")
    record(sent('"a"'))
    record(sent('"b"'))
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    recorder(tmp_path)(sent('"a"'))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("place", ["link", "pipe", "folder"])
def test_what_is_no_file_of_its_own_is_neither_followed_nor_waited_for(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    file, elsewhere = tmp_path / FILE_NAME, tmp_path / "elsewhere"
    elsewhere.write_text(_line(head=0, tail=0, text="other").model_dump_json() + "\n")
    before = elsewhere.read_bytes()
    {"link": lambda: file.symlink_to(elsewhere), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[place]()
    recorder(tmp_path)(sent('"a"'))
    assert "cannot be written and ends here" in caplog.text
    with pytest.raises(OSError, match=r"symbolic links|no regular file|directory"):
        read_requests(file)
    assert elsewhere.read_bytes() == before


def test_they_are_forgotten_after_two_weeks(tmp_path: Path) -> None:
    two_weeks_s = 14 * 24 * 3600
    folders = [tmp_path / name for name in ("old", "new", "none")]
    for folder in folders:
        folder.mkdir()
    for folder, age in zip(folders, (two_weeks_s + 1, two_weeks_s - 1), strict=False):
        (folder / FILE_NAME).touch()
        os.utime(folder / FILE_NAME, (1e9 - age, 1e9 - age))
    prune(folders, 1e9)
    assert [(folder / FILE_NAME).exists() for folder in folders] == [False, True, False]


def test_nobody_is_asked_for_what_nobody_listens_to_and_a_listener_stops_nothing() -> None:
    def refuse() -> Sent:
        raise AssertionError("somebody asked")

    tell_sent(refuse)
    heard: list[Sent] = []
    with listening(heard.append):
        tell_sent(lambda: sent("a"))
        with listening(None):
            tell_sent(refuse)
        tell_sent(refuse)  # logged
    assert heard == [sent("a")]


# --- the story ---


def event(type: str, seq: int, **fields: Any) -> bytes:
    return json.dumps({"type": type, "seq": seq, "session": "s", "ts": 100.0 + seq, **fields}).encode()


def request(after_seq: int, body: Any, agent: str | None = None) -> Line:
    return _line(after_seq=after_seq, address="http://here", agent=agent, head=0, tail=0, text=json.dumps(body))


def shape(nodes: list[Node]) -> list[Any]:
    return [
        (node.kind, node.title, shape(node.children)) if node.children else (node.kind, node.title) for node in nodes
    ]


CALL = {"call_id": "c1", "tool_name": "bash"}
STORY = [
    event("user_message", 1, source="prompt", content=[{"type": "text", "text": "do it"}]),
    event("model_start", 2, model="a/b", attempt=1),
    event("model_end", 3, stop_reason="failed", request_ms=5),
    event("model_start", 4, model="a/b", attempt=2),
    event("model_end", 5, stop_reason="tool_use", request_ms=70, ttft_ms=20),
    event("usage", 6, spent={"input": 10, "cache_read": 90, "output": 4}, spent_usd=0.0123),
    event("assistant_message", 7, message={"content": [{"type": "text", "text": "I will"}]}),
    event("permission_request", 8, request_id="perm-1", **CALL, input={"command": "ls"}),
    event("permission_resolved", 18, request_id="perm-1", resolution="allowed", answered_by="client"),
    event("tool_start", 19, **CALL, input={"command": "ls -la"}),
    event("tool_end", 21, **CALL, output="a.txt", is_error=False),
    event("notice", 22, level="warning", code="oh", text="no"),
    event("compaction_start", 23, trigger="auto"),
    event("compacted", 24, ok=True, before_tokens=9, after_tokens=3, summary="short"),
    event("invented", 25, x=1),
    event("error", 26, code="quota", text="empty"),
    event("done", 27, stop_reason="error", cost_usd=0.5),
    b'{"type":"prompt","text":"a record"}',
]


def test_a_story_has_what_belongs_together_as_one() -> None:
    nodes = tell(STORY, [request(2, {"m": [1]}), request(4, {"m": [1]})])
    assert shape(nodes) == [
        ("prompt", "do it"),
        ("model", "a/b"),
        ("model", "a/b"),
        ("permission", "perm-1: bash"),
        ("tool", "bash ls -la"),
        ("notice", "oh: no"),
        ("compaction", "auto"),
        ("note", "invented"),
        ("end", "quota: empty"),
        ("end", "error"),
    ]
    failed, answered, asked, ran = nodes[1:5]
    assert (failed.ms, failed.is_bad, [name for name, _ in failed.texts]) == (
        5,
        True,
        ["sent to http://here", "headers"],
    )
    assert answered.facts == ["attempt 2", "tool_use", "first word after 20 ms", "100 in (90 cached), 4 out", "$0.0123"]
    assert answered.texts[0] == ("sent to http://here", "as before: m (1)\n{}")
    assert (asked.ms, asked.facts) == (10_000, ["allowed client"])
    assert (ran.ms, ran.texts[-1]) == (2_000, ("result", "a.txt"))
    assert nodes[6].facts == ["9 to 3 tokens"]


def test_what_a_subagent_did_lies_in_the_call_that_began_it() -> None:
    lines = [
        event("model_start", 1, model="a/b"),
        event("model_end", 2, stop_reason="tool_use", request_ms=1),
        event("tool_start", 3, call_id="t1", tool_name="task", input={"prompt": "look"}),
        event("user_message", 4, source="prompt", content=[], agent="explore-1", for_call="t1"),
        event("model_start", 5, model="a/c", agent="explore-1"),
        event("model_end", 6, stop_reason="end_turn", request_ms=1, agent="explore-1"),
        event("tool_end", 7, call_id="t1", tool_name="task", output="found", is_error=False),
    ]
    nodes = tell(lines, [request(5, {"x": 1}, "explore-1"), request(1, {"y": 1})])
    assert shape(nodes) == [
        ("model", "a/b"),
        ("tool", "task look", [("agent", "explore-1", [("prompt", ""), ("model", "a/c")])]),
    ]
    assert '"y": 1' in nodes[0].texts[0][1]
    assert '"x": 1' in nodes[1].children[0].children[1].texts[0][1]


@pytest.mark.parametrize(
    ("before", "body", "new"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({"a": [1]}, {"a": [1, 2]}, {"a, behind the first 1": [2]}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ("no", [1], [1]),
    ],
)
def test_of_a_request_what_is_new_is_shown(before: Any, body: Any, new: Any) -> None:
    said = news(before, body)
    assert json.loads(said[said.index("\n") + 1 :] if said.startswith("as before") else said) == new


def test_the_page_escapes_whatever_it_shows() -> None:
    evil = "</pre><script>alert(1)</script>"
    node = Node("tool", evil, 1.0, facts=[evil], texts=[(evil, evil)], children=[Node("notice", evil, 2.0)])
    page = "".join(render(evil, [node], evil))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 8
    assert list(outline([node]))[1].startswith("    +1.000 s     notice")
