"""The few requests that the checks make, and the event stream, read by code of their own."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import httpx

from agentcore_selfcheck.verdicts import Broken, demand

WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it was received."""

    id: int | None
    event: str
    data: bytes

    @property
    def value(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data)
        return found


Frames: TypeAlias = AsyncIterator[Frame]


async def asked(http: httpx.AsyncClient, method: str, path: str, status: int, **body: Any) -> Any:
    """The answer's JSON. Raises: Broken for any other status."""
    answer = await http.request(method, path, json=body or None)
    demand(answer.status_code == status, f"{method} {path} was answered {answer.status_code}, not {status}")
    return answer.json() if answer.content else None


async def new_session(http: httpx.AsyncClient, **settings: Any) -> str:
    return str((await asked(http, "POST", "/v1/sessions", 201, **{"unattended": "wait", **settings}))["id"])


@asynccontextmanager
async def stream(
    http: httpx.AsyncClient, session: str, after: int | None = None
) -> AsyncIterator[AsyncIterator[Frame]]:
    """The events of a session; `after` is sent as `Last-Event-ID`."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with http.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as answer:
        demand(answer.status_code == 200, f"the stream was answered {answer.status_code}")
        yield _frames(answer)


async def _frames(answer: httpx.Response) -> Frames:
    buffer = b""
    async for piece in answer.aiter_raw():
        *blocks, buffer = (buffer + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and line[:1] != b":")
            if b"data" in fields:
                number = int(fields[b"id"]) if b"id" in fields else None
                yield Frame(number, fields.get(b"event", b"").decode(), fields[b"data"])


async def until(frames: Frames, is_it: Callable[[Frame], bool], what: str) -> list[Frame]:
    """All frames up to the one that is meant. Raises: Broken when it does not come."""
    seen = []
    with anyio.move_on_after(WAIT_S):
        async for frame in frames:
            seen.append(frame)
            if is_it(frame):
                return seen
    raise Broken(f"{what} did not come within {WAIT_S:.0f} s")


def is_event(name: str) -> Callable[[Frame], bool]:
    return lambda frame: frame.event == name


def is_idle(frame: Frame) -> bool:
    return frame.event == "status" and not frame.value["busy"]
