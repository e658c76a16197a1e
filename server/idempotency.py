"""The first answer again: what a POST under an `Idempotency-Key` was told is told to everybody who sends it again.

Wraps the handler of every POST (`once`), so that no endpoint can forget it. The handler of a request with a key runs
in a task of its own: its answer is kept though the client hangs up, and whoever sends the same again waits for it.
Only successes are kept, for ten minutes in this process; a prompt's key is in its journal as well (`live.again`).
Promise: under one key and one body, one effect.
"""

import hashlib
import re
from collections import deque
from dataclasses import dataclass, field

from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response

from agentcore.agent import OTHER_BODY
from agentcore.ports.clock import Clock
from agentcore.replies import Reply
from agentcore.session import SUBMISSION_KEPT_S, Submission
from server.problems import Problem, edge
from server.routes.context import hub_of
from server.routes.table import Endpoint, Handler

HEADER = "Idempotency-Key"
KEPT = 10_000  # answers; beyond, the oldest go first
KEPT_BYTES = 32 * 1024 * 1024  # of all bodies together; beyond, the oldest go first
_KEY = re.compile(r"[ -~]{1,200}")  # the promise of the API; printable ASCII

_Name = tuple[str, ...]
"""A key and a path."""


@dataclass(slots=True, eq=False)
class _First:
    """The first request of its name."""

    names: frozenset[_Name]
    body_sha256: str
    answer: Reply[Response | None] = field(default_factory=Reply)
    """None when the server stopped before there was one."""
    size_bytes: int = 0
    expires: float = 0.0
    """On the monotonic clock."""


class Answers:
    """The requests that are going on under a key, and the answers that are kept."""

    def __init__(self, clock: Clock, tasks: TaskGroup) -> None:
        self._clock = clock
        self._tasks = tasks
        self._is_closed = False
        self._first: dict[_Name, _First] = {}
        self._kept: deque[_First] = deque()
        """The one that was answered first in front."""
        self._size_bytes = 0

    def find(self, name: _Name) -> _First | None:
        self._forget()
        return self._first.get(name)

    def begin(self, names: frozenset[_Name], body_sha256: str, handler: Handler, request: Request) -> _First:
        """Take the request as the first of its names and start its handler. Raises: Problem `draining`."""
        if self._is_closed:
            raise Problem("draining", "The server is stopping. Try again when it is back.")
        first = _First(names, body_sha256)
        self._first.update(dict.fromkeys(names, first))
        self._tasks.start_soon(self._run, first, handler, request, name=f"{request.method} {request.url.path}")
        return first

    def close(self) -> None:
        """Start nothing more: the tasks are about to end."""
        self._is_closed = True

    async def _run(self, first: _First, handler: Handler, request: Request) -> None:
        response: Response | None = None
        try:
            response = await handler(request)
        finally:
            self._settle(first, response)

    def _settle(self, first: _First, response: Response | None) -> None:
        """Keep a success; after anything else the key is free again, and who waits already is told the same."""
        if response is not None and 200 <= response.status_code < 300:
            first.expires = self._clock.monotonic() + SUBMISSION_KEPT_S
            first.size_bytes = len(response.body)
            self._size_bytes += first.size_bytes
            self._kept.append(first)
        else:
            self._drop(first)
        first.answer.resolve(response)
        self._forget()

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._kept and (self._kept[0].expires <= now or len(self._kept) > KEPT or self._size_bytes > KEPT_BYTES):
            oldest = self._kept.popleft()
            self._size_bytes -= oldest.size_bytes
            self._drop(oldest)

    def _drop(self, first: _First) -> None:
        for name in first.names:
            if self._first.get(name) is first:
                del self._first[name]


def once(endpoint: Endpoint) -> Handler:
    """The endpoint's handler, with the first answer given again where a request names itself by a key."""
    handler = edge(endpoint.handler)

    async def answer_once(request: Request) -> Response:
        key = _key_of(request)
        if key is None:
            return await endpoint.handler(request)
        submission = Submission(key=key, body_sha256=await _fingerprint(request, endpoint))
        answers: Answers = request.app.state.answers
        as_sent = ("sent", key, request.url.path)  # `latest` may be another session by now, the submission is the same
        first = answers.find(as_sent)
        if first is None:
            named = (key, *await _resolved_path(endpoint, request))
            first = answers.find(as_sent) or answers.find(named)
            if first is None:
                request.state.submission = submission
                first = answers.begin(frozenset({as_sent, named}), submission.body_sha256, handler, request)
        if first.body_sha256 != submission.body_sha256:
            raise Problem("unprocessable", OTHER_BODY)
        return _copy_of(await first.answer.wait())

    return answer_once


def submission_of(request: Request) -> Submission | None:
    """How a request names itself; None without a key."""
    submission: Submission | None = getattr(request.state, "submission", None)
    return submission


def _key_of(request: Request) -> str | None:
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise Problem("bad_request", f"{HEADER} must be given once, as 1 to 200 printable ASCII characters.")
    return given[0]


async def _fingerprint(request: Request, endpoint: Endpoint) -> str:
    """SHA-256 of the body; of a file with what it is said to be."""
    kind = request.headers.get("content-type", "") + "\n" if endpoint.raw_body else ""
    return hashlib.sha256(kind.encode() + await request.body()).hexdigest()


async def _resolved_path(endpoint: Endpoint, request: Request) -> tuple[str, ...]:
    """The path with the whole id of its session; the handler gets that id as well. Raises: AgentError."""
    parts = request.path_params
    if "id" in parts:
        parts["id"] = await hub_of(request).resolve(parts["id"])
    return endpoint.path, *map(str, parts.values())


def _copy_of(answer: Response | None) -> Response:
    """An answer of its own for each request: the headers are completed on the way out."""
    if answer is None:
        raise Problem("draining", "The server stopped before there was an answer. Send the request again, as it is.")
    copy = Response(answer.body, answer.status_code)
    copy.raw_headers = list(answer.raw_headers)
    return copy
