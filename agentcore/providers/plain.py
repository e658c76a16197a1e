"""A plain HTTP client for vendors whose wire is small enough to need no SDK (Gemini, Ollama).

Nothing is sent twice, no redirect is followed, and there is no bound on how long an answer may be silent: the loop
keeps watch over that, and retries.
"""

from typing import TYPE_CHECKING

import anyio

from agentcore.providers.answers import CLOSE_S, MAX_DOCUMENT_BYTES, name_of
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
WRITE_S = 60.0  # without any byte taken
IDLE_S = 60.0  # a connection is kept for the next turn, which begins when the tools have run


class PlainClient:
    """One pool of connections to one endpoint."""

    def __init__(self, endpoint: Endpoint, faults: Faults) -> None:
        import httpx2

        self._faults = faults
        self._base_url = endpoint.base_url.rstrip("/")
        httpx2.URL(self._base_url)  # what is wrong with it shows now, not with the first call
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(connect=CONNECT_S, read=None, write=WRITE_S, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE_S),
            trust_env=not endpoint.is_local,  # no proxy leads to this machine
        )

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> "httpx2.Response":
        """Send JSON; return the answer with its body unread. Raises: ProviderError."""
        import httpx2

        request = self._http.build_request(
            "POST", self._base_url + path, content=body, headers={"Content-Type": "application/json", **headers}
        )
        try:
            response = await self._http.send(request, stream=True)
            if response.is_success:
                return response
            body = await read_body(response)
        except httpx2.RequestError as error:
            raise self._faults.of("network", name_of(error)) from error
        raise self._faults.of_answer(response.status_code, body, response.headers)

    async def close(self) -> None:
        await self._http.aclose()


async def read_body(response: "httpx2.Response", max_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read a document and close its answer; what is longer is cut. Raises: httpx2.RequestError."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > max_bytes:
                break
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await response.aclose()
    return bytes(body[:max_bytes])
