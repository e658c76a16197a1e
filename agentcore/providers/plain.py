"""A plain HTTP client for vendors whose wire is small enough to need no SDK (Gemini, Ollama)."""

from typing import TYPE_CHECKING

from agentcore.providers.answers import name_of
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults
from agentcore.providers.http import http_options

if TYPE_CHECKING:
    import httpx2


class PlainClient:
    """One pool of connections to one endpoint."""

    def __init__(self, endpoint: Endpoint, faults: Faults) -> None:
        import httpx2

        self._faults = faults
        self._base_url = endpoint.base_url.rstrip("/")
        httpx2.URL(self._base_url)  # what is wrong with it shows now, not with the first call
        self._http = httpx2.AsyncClient(**http_options(endpoint, faults))

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> "httpx2.Response":
        """Send JSON; return the answer with its body unread. Raises: ProviderError."""
        import httpx2

        request = self._http.build_request(
            "POST", self._base_url + path, content=body, headers={"Content-Type": "application/json", **headers}
        )
        try:
            return await self._http.send(request, stream=True)
        except httpx2.RequestError as error:
            raise self._faults.of("network", name_of(error)) from error

    async def close(self) -> None:
        await self._http.aclose()
