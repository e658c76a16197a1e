"""What an endpoint is: one value from which both the router and `openapi.yaml` are built."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    `answers` maps each success status to the model of its JSON body, None for an empty one. `problems` are the
    codes of `server.problems` it may answer besides those of every endpoint. `stream` marks an SSE answer.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, type[BaseModel] | None]
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: type[BaseModel] | None = None
    """Request headers it reads; field names are the header names with `-` as `_`."""
    problems: tuple[str, ...] = field(default=())
    stream: bool = False
    media_type: str = "application/json"
    """Of the answer; other than JSON it has no model, and `*/*` stands for bytes of any kind."""
    public: bool = False
    """Answered without a bearer token."""
    raw_body: tuple[str, ...] = ()
    """The media types of the bytes that it takes instead of JSON; `text/*` is a range."""
    is_fresh: bool = False
    """A POST whose every answer is another, whatever its `Idempotency-Key`."""

    @property
    def takes_key(self) -> bool:
        """Whether the same `Idempotency-Key` gets the first answer again."""
        return self.method == "POST" and not self.is_fresh
