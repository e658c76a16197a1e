"""What is refused of bodies, queries and headers, and how it is said."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from starlette.requests import Request

from agentcore.values import Value
from server.bodies import parse_body, read_body, read_headers, read_query
from server.problems import Problem

pytestmark = pytest.mark.anyio


class Inner(Value):
    n: int


class Body(Value):
    text: str = "none"
    limit: int | None = Field(default=None, ge=1)
    inner: Inner | None = None
    resume_last: bool | None = Field(default=None, alias="continue")
    extra: dict[str, Any] | None = None


class Headers(Value):
    last_event_id: int | None = None


def request(query: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> Request:
    return Request({"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": headers or []})


def refusal(raw: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        parse_body(raw, Body)
    assert caught.value.code == "bad_request"
    return caught.value


@pytest.mark.parametrize("raw", [b"", b"  \n", b"{}"])
def test_an_empty_body_is_an_empty_object(raw: bytes) -> None:
    assert parse_body(raw, Body) == Body()


MALFORMED = {
    "not json": b"nul",
    "list": b"[1]",
    "string": b'"x"',
    "trailing": b"{} {}",
    "utf-8": b'{"text": "\xff"}',
    "utf-16": '{"text": "x"}'.encode("utf-16"),
    "mark": b"\xef\xbb\xbf{}",
    "nan": b'{"extra": {"x": NaN}}',
    "infinity": b'{"extra": {"x": -Infinity}}',
    "infinite number": b'{"extra": {"x": 1e999}}',
    "huge number": b'{"limit": ' + b"9" * 5000 + b"}",
    "doubled": b'{"text": "x", "text": "y"}',
    "doubled within": b'{"extra": {"a": {"b": 1, "b": 2}}}',
    "half a pair": b'{"text": "\\ud800"}',
    "half a pair as a name": b'{"extra": {"\\udfff": 1}}',
    "deep": b'{"extra": {"x": ' + b"[" * 500 + b"]" * 500 + b"}}",
    "very deep": b'{"extra": ' * 100_000,
    "control": b'{"text": "a\x00b"}',
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_json_is_refused(raw: bytes) -> None:
    assert str(refusal(raw)).endswith(".")


FIELDS = {
    "unknown": (b'{"txet": "x"}', "txet", "is not known here; known are: text, limit, inner, continue, extra"),
    "type": (b'{"text": 5}', "text", "should be a valid string"),
    "number as text": (b'{"limit": "5"}', "limit", "should be a valid integer"),
    "flag as number": (b'{"continue": 1}', "continue", "should be a valid boolean"),
    "range": (b'{"limit": 0}', "limit", "should be greater than or equal to 1"),
    "within": (b'{"inner": {}}', "inner.n", "is missing"),
    "unknown within": (b'{"inner": {"n": 1, "m": 2}}', "inner.m", "is not known here"),
}


@pytest.mark.parametrize(("raw", "field", "problem"), FIELDS.values(), ids=FIELDS.keys())
def test_the_sentence_names_the_field_and_what_to_send(raw: bytes, field: str, problem: str) -> None:
    caught = refusal(raw)
    assert str(caught) == f'Cannot use the request body: "{field}" {problem}.'
    assert caught.details == {"fields": [{"field": field, "problem": problem}]}


def test_what_was_sent_is_not_repeated() -> None:
    assert "hunter2" not in str(refusal(b'{"limit": "hunter2"}'))


def test_many_and_long_names_make_a_short_sentence() -> None:
    raw = ("{" + ",".join(f'"{i}{"x" * 9000}": 1' for i in range(200)) + "}").encode()
    assert len(str(refusal(raw))) < 1200


ALMOST_JSON = st.text(alphabet='{}[]",:0123456789eE.-\\utextlimn ', max_size=40).map(str.encode)


@given(st.binary(max_size=60) | ALMOST_JSON)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(Problem):
        parse_body(raw, Body)


async def test_the_body_of_a_request_is_read_in_pieces() -> None:
    messages = [
        {"type": "http.request", "body": b'{"text": "h\xc3', "more_body": True},
        {"type": "http.request", "body": b'\xa9"}', "more_body": False},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    assert await read_body(Request(scope, receive), Body) == Body(text="hé")


QUERIES = {
    "unknown": (b"txet=1", '"txet"'),
    "twice": (b"limit=1&limit=2", '"limit" is given twice'),
    "number": (b"limit=many", '"limit"'),
    "empty": (b"limit=", '"limit"'),
    "utf-8": (b"text=%ff", "UTF-8"),
    "too many": (b"&".join(b"a%d=1" % i for i in range(100)), "name=value"),
    "raw bytes": (b"text=\xff", "UTF-8"),
}


@pytest.mark.parametrize(("query", "part"), QUERIES.values(), ids=QUERIES.keys())
def test_a_query_that_means_nothing_is_refused(query: bytes, part: str) -> None:
    with pytest.raises(Problem) as caught:
        read_query(request(query), Body)
    assert caught.value.code == "bad_request"
    assert part in str(caught.value)


def test_a_query_is_read_with_its_types() -> None:
    assert read_query(request(b"limit=5&text=a%20b&continue=true"), Body) == Body(
        limit=5, text="a b", **{"continue": True}
    )


def test_headers_are_read_by_the_names_of_the_model() -> None:
    assert read_headers(request(headers=[(b"last-event-id", b"7"), (b"accept", b"*/*")]), Headers).last_event_id == 7
    assert read_headers(request(), Headers).last_event_id is None


@pytest.mark.parametrize("headers", [[(b"last-event-id", b"x")], [(b"last-event-id", b"1"), (b"last-event-id", b"2")]])
def test_headers_that_mean_nothing_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Problem) as caught:
        read_headers(request(headers=headers), Headers)
    assert caught.value.code == "bad_request"
