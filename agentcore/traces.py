"""What happened in a session, and what was sent meanwhile: from its directory, loaded or not. Blocking."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from agentcore.clock import SystemClock
from agentcore.errors import NotFound
from agentcore.redaction import Redactor
from agentcore.sessions.reading import read_lines
from agentcore.sessions.segments import FILE_NAME as JOURNAL
from agentcore.sessions.store import SessionStore
from agentcore.tracing.outline import outline
from agentcore.tracing.page import render
from agentcore.tracing.requests import FILE_NAME, Line, restored
from agentcore.tracing.requests import read_lines as read_requests
from agentcore.tracing.timeline import Node, tell

_NOT_KEPT = "What was sent to the model was not kept: start the server with --debug for that."


@dataclass(frozen=True, slots=True)
class Trace:
    """Secrets are taken out of it."""

    session: str
    nodes: list[Node]
    requests: list[Line]
    missing: str | None
    """Why what was sent to models is not in it; None: it is."""

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        return outline(self.nodes)

    def sent(self) -> Iterator[bytes]:
        """Each request to a model, whole, as a line of JSON: `at` (Unix seconds), `after_seq` (the last event before
        it), `agent` (a subagent's label), `address`, `headers`, `body`. Raises: NotFound, before the first line."""
        if self.missing is not None:
            raise NotFound(self.missing)
        return (json.dumps(asdict(request), ensure_ascii=False).encode() + b"\n" for request in restored(self.requests))

    def page(self) -> Iterator[bytes]:
        """As HTML, in pieces."""
        for piece in render(f"Session {self.session}", self.nodes, self.missing):
            yield piece.encode()


def find_trace(sessions: Path, name: str, redactor: Redactor) -> Trace:
    """Of a session below the folder `sessions`, by id, unique prefix or `latest`.

    Raises: NotFound, AmbiguousPrefix, OSError.
    """
    store = SessionStore(sessions, (Path("/"),), SystemClock())
    session = store.resolve(name)
    return trace_of(store.directory_of(session), session, redactor)


def trace_of(directory: Path, session: str, redactor: Redactor, size: int | None = None) -> Trace:
    """Up to byte `size` of its journal. Raises: OSError."""
    try:
        requests = list(read_requests(directory / FILE_NAME))
        missing = None if requests else _NOT_KEPT
    except OSError as error:
        requests, missing = [], f"What was sent to the model cannot be read: {FILE_NAME}: {error.strerror}."
    lines = (redactor.line(line) for line in read_lines(directory / JOURNAL, size))
    return Trace(session, tell(lines, requests), requests, missing)
