"""Nobody gets in: not without the token, not from a web page, not by a name that was pointed here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import asked, new_session
from agentcore_selfcheck.verdicts import Say, demand

_STORY = {"turns": [{"text": "Hello."}]}
_BODY = b'{"text": "let me in"}'


@dataclass(frozen=True, slots=True)
class _Attack:
    name: str
    refused_with: tuple[int, ...]
    method: str = "POST"
    path: str = "/v1/sessions/{session}/prompt"
    headers: Mapping[str, str] = field(default_factory=dict)
    has_token: bool = True


_JSON = {"Content-Type": "application/json"}
_ATTACKS = (
    _Attack("no token", (401,), headers=_JSON, has_token=False),
    _Attack("a wrong token", (401,), headers={**_JSON, "Authorization": "Bearer guess"}, has_token=False),
    _Attack("the token in the URL", (400, 401), "GET", "/v1/sessions?token={token}", has_token=False),
    _Attack("a name that was pointed here", (400, 403, 421), headers={**_JSON, "Host": "evil.example"}),
    _Attack("a name that only begins like ours", (400, 403, 421), headers={**_JSON, "Host": "localhost.evil.example"}),
    _Attack("a web page", (403,), headers={**_JSON, "Origin": "https://evil.example"}),
    _Attack("a sandboxed web page", (403,), headers={**_JSON, "Origin": "null"}),
    _Attack("a form of a web page", (415,), headers={"Content-Type": "text/plain"}),
    _Attack("a form with a file", (415,), headers={"Content-Type": "multipart/form-data; boundary=x"}),
    _Attack("a body of no type", (415,)),
    _Attack(
        "a preflight of a web page",
        (400, 401, 403, 405),
        "OPTIONS",
        headers={
            "Origin": "https://evil.example",
            "Access-Control-Request-Method": "POST",
        },
        has_token=False,
    ),
    _Attack("a stream without a ticket", (401,), "GET", "/v1/sessions/{session}/events", has_token=False),
    _Attack("a forged ticket", (401, 403), "GET", "/v1/sessions/{session}/events?ticket=guess", has_token=False),
    _Attack("a session by a path", (400, 404), "GET", "/v1/sessions/..%2F..%2Fetc"),
)


async def borders(folder: Path, say: Say) -> str:
    async with Server.running(folder, _STORY) as server, server.client() as owner:
        session = await new_session(owner)
        first = (await asked(owner, "GET", f"/v1/sessions/{session}", 200))["last_seq"]
        for attack in _ATTACKS:
            say(attack.name)
            await _try(server, session, attack)
        last = (await asked(owner, "GET", f"/v1/sessions/{session}", 200))["last_seq"]
        demand(last == first, "a forged prompt reached the session")
        return f"{len(_ATTACKS)} forged requests, all refused; nothing of them reached the session"


async def _try(server: Server, session: str, attack: _Attack) -> None:
    credentials = {"Authorization": f"Bearer {server.token}"} if attack.has_token else {}
    path = attack.path.format(session=session, token=server.token)
    async with httpx.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as http:
        body = _BODY if attack.method == "POST" else None
        answer = await http.request(attack.method, path, content=body, headers={**credentials, **attack.headers})
    demand(answer.status_code in attack.refused_with, f"{attack.name} was answered {answer.status_code}")
    allowed = answer.headers.get("access-control-allow-origin")
    demand(allowed is None, f"{attack.name} was told that it may read the answers")
