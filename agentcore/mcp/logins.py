"""Where somebody has logged in: the tokens of servers over HTTP, kept for the user alone, and shown to nobody else.

`<config dir>/mcp-logins.json`, changed under a lock and replaced in one step. A token goes to the address that it was
given for and no other. Nothing here begins a login (`agentcore.mcp.login` does); a token that has run out is renewed.
"""

import json
import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, ValidationError

from agentcore.errors import Unprocessable
from agentcore.folders import make_private, read_regular
from agentcore.mcp.targets import Target
from agentcore.settings.private import locked, replace_private

if TYPE_CHECKING:
    import httpx2

FILE_NAME = "mcp-logins.json"
MAX_FILE_BYTES = 4 * 1024 * 1024
EARLY_S = 30.0
"""A token is renewed so long before it runs out."""

log = logging.getLogger(__name__)


class Login(BaseModel):
    """What a server gave, and all that is needed to have it renewed."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)

    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    """Unix time in seconds."""
    token_endpoint: str
    client_id: str
    client_secret: str | None = None
    scope: str | None = None
    resource: str | None = None

    def __repr__(self) -> str:
        return f"Login(client_id={self.client_id!r})"

    __str__ = __repr__


class Logins:
    """The store of one user; what another process writes is seen at once. Methods without `async` block."""

    def __init__(self, config_dir: Path) -> None:
        self._file = config_dir / FILE_NAME

    async def auth(self, target: Target) -> "httpx2.Auth | None":
        """What a server is shown; None where nobody has logged in."""
        if target.transport == "stdio" or await to_thread.run_sync(self.find, target.url) is None:
            return None
        return _made(self, target.url)

    def find(self, url: str) -> Login | None:
        try:
            return self._read().get(url)
        except Unprocessable as error:
            log.warning("%s", error)
            return None

    def keep(self, url: str, login: Login | None) -> None:
        """Put a login in the place of the one before; None forgets it. Raises: OSError, Unprocessable."""
        make_private(self._file.parent)
        with locked(self._file):
            known = self._read()
            known.pop(url, None)
            if login is not None:
                known[url] = login
            entries = {one: kept.model_dump(exclude_none=True) for one, kept in known.items()}
            replace_private(self._file, json.dumps({"version": 1, "logins": entries}, indent=1).encode())

    def _read(self) -> dict[str, Login]:
        try:
            data = json.loads(read_regular(self._file, MAX_FILE_BYTES))
            return {str(url): Login.model_validate(one) for url, one in data["logins"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
            why = type(error).__name__
            raise Unprocessable(f"{FILE_NAME} cannot be read: {why}. Remove it, and log in again.") from None


def _made(logins: Logins, url: str) -> "httpx2.Auth":
    import httpx2

    class Shown(httpx2.Auth):
        """Shows the token, and has it renewed once where it has run out or is refused."""

        def __init__(self) -> None:
            self._lock = anyio.Lock()

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            login = await to_thread.run_sync(logins.find, url)
            if login is None:
                yield request
                return
            if login.expires_at is not None and login.expires_at - EARLY_S < time.time():
                async with self._lock:
                    login = await to_thread.run_sync(logins.find, url) or login
                    if login.expires_at is not None and login.expires_at - EARLY_S < time.time():
                        renewed = await _renewed(login, (yield _renewal(login))) if login.refresh_token else None
                        login = await _kept(logins, url, renewed) or login
            request.headers["Authorization"] = f"Bearer {login.access_token}"
            response = yield request
            if response.status_code != 401 or not login.refresh_token:
                return
            renewed = await _renewed(login, (yield _renewal(login)))
            if await _kept(logins, url, renewed) is not None and renewed is not None:
                request.headers["Authorization"] = f"Bearer {renewed.access_token}"
                yield request

    return Shown()


async def _kept(logins: Logins, url: str, login: Login | None) -> Login | None:
    if login is not None:
        try:
            await to_thread.run_sync(logins.keep, url, login)
        except (OSError, Unprocessable) as error:
            log.warning("a renewed login cannot be kept: %s", type(error).__name__)
    return login


def _renewal(login: Login) -> "httpx2.Request":
    import httpx2

    data = {"grant_type": "refresh_token", "refresh_token": login.refresh_token or "", "client_id": login.client_id}
    data |= {} if login.client_secret is None else {"client_secret": login.client_secret}
    data |= {} if login.resource is None else {"resource": login.resource}
    return httpx2.Request("POST", login.token_endpoint, data=data, headers={"Accept": "application/json"})


async def _renewed(login: Login, response: "httpx2.Response") -> Login | None:
    """The login with what its server answered; None where it gave nothing."""
    if response.status_code != 200:
        log.info("a login could not be renewed: status %d", response.status_code)
        return None
    try:
        given = json.loads(await response.aread())
        expires_in = given.get("expires_in")
        return login.model_copy(
            update={
                "access_token": str(given["access_token"]),
                "refresh_token": given.get("refresh_token") or login.refresh_token,
                "expires_at": None if expires_in is None else time.time() + float(expires_in),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
