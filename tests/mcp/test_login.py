"""Logging in at a server over HTTP: only on command, kept for the user alone, renewed, and never shown."""

import json
import logging
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.mcp.login import log_in
from agentcore.mcp.logins import FILE_NAME, Login, Logins
from agentcore.mcp.states import State, Timing
from agentcore.mcp.targets import Target, Unusable
from tests.mcp.serving import LOCKED, WITHIN_S, http_server, pool, reached, ready
from tests.mcp.test_servers import say

pytestmark = pytest.mark.anyio
ONCE = Timing(connect_s=60.0, delays_s=(3600.0,))


def locked(port: int) -> Target:
    return Target("locked", "http", "test", url=f"http://127.0.0.1:{port}/mcp")


async def allow(url: str) -> None:
    """A person whose browser follows the way back."""
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        assert (await browser.get(url)).status_code == 200


async def test_without_a_login_a_server_says_what_it_needs_and_no_flow_begins(tmp_path: Path) -> None:
    with http_server("3600", program=LOCKED) as (port, _):
        async with pool(ONCE, Logins(tmp_path).auth) as servers:
            server = servers.use(locked(port))
            await reached(server, State.NEEDS_LOGIN)
            assert server.error == "It wants a login: agentcore mcp login locked"
    assert not (tmp_path / FILE_NAME).exists()


async def test_a_login_is_kept_for_the_user_alone_and_lets_later_starts_in(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    logins = Logins(tmp_path)
    with http_server("3600", program=LOCKED) as (port, _):
        with anyio.fail_after(WITHIN_S):
            assert await log_in(locked(port), logins, allow) == 1
        async with pool(ONCE, logins.auth) as servers:
            server = await ready(servers, locked(port))
            assert json.loads(await say(await server.connection(1), "seen"))["refreshed"] == 0
        kept = logins.find(f"http://127.0.0.1:{port}/mcp")
        assert kept is not None
        assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
        assert kept.access_token not in repr(kept) + caplog.text
        assert kept.refresh_token is not None
        assert kept.refresh_token not in caplog.text


async def test_a_token_that_ran_out_is_renewed_at_where_it_was_given(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    with http_server("3600", program=LOCKED) as (port, _):
        with anyio.fail_after(WITHIN_S):
            await log_in(locked(port), logins, allow)
        url = locked(port).url
        before = logins.find(url)
        assert before is not None
        for update in ({"expires_at": 1.0}, {"access_token": "taken-back"}):
            logins.keep(url, (logins.find(url) or before).model_copy(update=update))
            async with pool(ONCE, logins.auth) as servers:
                await ready(servers, locked(port))
        after = logins.find(url)
        assert after is not None
        assert after.refresh_token != before.refresh_token
        logins.keep(url, after.model_copy(update={"access_token": "x", "refresh_token": "y"}))
        async with pool(ONCE, logins.auth) as servers:
            await reached(servers.use(locked(port)), State.NEEDS_LOGIN)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("deny", "The login at the MCP server locked failed: it was not allowed (access_denied)."),
        ("forge", "The login at the MCP server locked failed: OAuthFlowError."),
    ],
)
async def test_a_login_that_was_not_allowed_or_not_asked_for_keeps_nothing(tmp_path: Path, how: str, why: str) -> None:
    web = http_server("3600", how, program=LOCKED)
    with web as (port, _), anyio.fail_after(WITHIN_S), pytest.raises(Unusable) as raised:
        await log_in(locked(port), Logins(tmp_path), allow)
    assert str(raised.value) == why
    assert not (tmp_path / FILE_NAME).exists()


async def test_a_server_that_wants_no_login_is_told_apart(tmp_path: Path) -> None:
    with http_server() as (port, _), anyio.fail_after(WITHIN_S), pytest.raises(Unusable, match="asks for no login"):
        await log_in(locked(port), Logins(tmp_path), allow)


def test_a_token_is_for_the_address_that_it_was_given_for(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    login = Login(access_token="a", token_endpoint="http://h/t", client_id="c")
    logins.keep("http://one/mcp", login)
    assert logins.find("http://one/mcp") == login
    assert logins.find("http://two/mcp") is None
    logins.keep("http://one/mcp", None)
    assert logins.find("http://one/mcp") is None


def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"logins": {"http://one": {"access_token": 1}}}')
    assert Logins(tmp_path).find("http://one") is None
