"""Messages that the SDK's parser refuses: read all the same, or refused at once to who asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.mcp.connection import Refused
from agentcore.mcp.reading import UNREADABLE, Mending, is_worth_it, read_again
from agentcore.mcp.targets import Target
from tests.mcp.serving import HERE, http_server, odd, pool, ready
from tests.mcp.test_servers import say

REFUSED = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32700, "message": UNREADABLE}}
DEEP = '{"a":' * 300 + "1" + "}" * 300
TOO_DEEP = "[" * 100_000


def result(text: str) -> str:
    return f'{{"jsonrpc":"2.0","id":5,"result":{text}}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (result('{"a":"\\ud83d"}'), {"jsonrpc": "2.0", "id": 5, "result": {"a": "\ufffd"}}),
        (result(DEEP), {"jsonrpc": "2.0", "id": 5, "result": json.loads(DEEP)}),
        (result("[1]"), REFUSED),
        ('{"id":5,"result":{}}', REFUSED),
        (result('{"a":'), REFUSED),
        (result(TOO_DEEP), REFUSED),
        (f'{{"result":{TOO_DEEP},"jsonrpc":"2.0","id":5}}', REFUSED),
        ('{"jsonrpc": "2.0", "id": "x", "error": {', REFUSED | {"id": "x"}),
        ('{"id":"a\tb","result":', REFUSED | {"id": "a\tb"}),
        ('{"id":05,"result":{}}', REFUSED),
        (f'{{"id":{10**3000},"result":{{}}}}', REFUSED | {"id": 10**3000}),
        ('{"jsonrpc":"2.0","id":null,"result":[1]}', None),
        ('{"jsonrpc":"2.0","id":true,"result":{}}', None),
        (f'{{"jsonrpc":"2.0","id":5,"method":"ping","params":{DEEP}}}', None),
        ('{"jsonrpc":"2.0","id":5,"method":"pi', None),
        ('{"level":"info","id":5}', None),
        ("{ready}", None),
    ],
)
def test_a_line_is_read_refused_to_who_asked_or_nobodys(line: str, message: Any) -> None:
    found = read_again(line.encode())
    assert (found and found.model_dump(by_alias=True, exclude_unset=True)) == message


def test_bytes_that_are_no_text_are_replaced() -> None:
    found = read_again(result('{"a":"x"}').encode().replace(b"x", b"\xf0\x9f"))
    assert found is not None
    assert found.model_dump()["result"] == {"a": "\ufffd"}


def test_only_what_may_be_a_message_is_read_again() -> None:
    assert [is_worth_it(line) for line in (b' {"a', b"Server starting", b"")] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (r'"\ud83d\ude00 \uD83D\uDE00"', r'"\ud83d\ude00 \uD83D\uDE00"'),
        (r'"\ud83d"', r'"\ufffd"'),
        (r'"\ude00\ud83d"', r'"\ufffd\ufffd"'),
        (r'"\ud83d\ud83d\ude00"', r'"\ufffd\ud83d\ude00"'),
        (r'"\ud83d\n"', r'"\ufffd\n"'),
        (r'"\ud83d\u0041"', r'"\ufffd\u0041"'),
        (r'"\\ud83d \\\ud83d \u00e9"', r'"\\ud83d \\\ufffd \u00e9"'),
        ('"\\', '"\\'),
        ("a\nb", "a\nb"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_half_a_pair_is_mended_however_it_is_cut_into_pieces(text: str, mended: str, size: int) -> None:
    mending, data = Mending(), text.encode()
    pieces = [mending.feed(data[start : start + size]) for start in range(0, len(data), size)]
    assert b"".join([*pieces, mending.end()]).decode() == mended


# --- a server ---


@pytest.mark.anyio
async def test_half_a_pair_costs_neither_an_answer_nor_a_list() -> None:
    async with pool() as servers:
        server = await ready(servers, odd("half"))
        assert [tool.description for tool in server.offer.tools] == ["Cut \ufffd"]
        assert await say(await server.connection(1), "echo", text="x") == "cut in an emoji \ufffd, \\ud83d and 😀"


@pytest.mark.anyio
@pytest.mark.parametrize("habit", ["nonsense", "torn"])
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(habit: str) -> None:
    async with pool() as servers:
        server = await ready(servers, odd(habit))
        with pytest.raises(Refused) as refused:
            await say(await server.connection(1), "echo", text="x")
    assert str(refused.value) == UNREADABLE


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["json", "events", "sse"])
async def test_so_it_is_over_http(how: str) -> None:
    with http_server(how, program=HERE / "odd_web_server.py") as (port, _):
        transport: Any = "sse" if how == "sse" else "http"
        target = Target("odd", transport, "test", folder=Path("/"), url=f"http://127.0.0.1:{port}/")
        async with pool() as servers:
            server = await ready(servers, target)
            assert [tool.description for tool in server.offer.tools] == ["half \ufffd"]
            connection = await server.connection(1)
            assert await say(connection, "echo") == "half \ufffd"
            with pytest.raises(Refused):
                await say(connection, "echo", text="x")
