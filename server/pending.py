"""Requests that wait for a person: a table, never a slot.

A row is taken out before anything else happens, so the first answer wins and a loser finds no row. All methods are
synchronous; rows outlive every client, and - through the journal - the process.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcore.events import PermissionRequest, PermissionResolved, Resolution
from agentcore.ports.permission import Answer
from agentcore.replies import Reply
from server.problems import Problem


@dataclass(slots=True)
class Row:
    request: PermissionRequest
    reply: Reply[Answer] = field(default_factory=Reply)


class Pending:
    def __init__(self, waiting: Iterable[PermissionRequest], resolved: dict[str, Resolution], requests: int) -> None:
        """Begin with what a journal left: open requests, resolutions, and the highest N of any `perm-N`."""
        self._rows = {request.request_id: Row(request) for request in waiting}
        self._resolved = resolved
        self._requests = requests

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def requests(self) -> tuple[PermissionRequest, ...]:
        """The open requests, oldest first."""
        return tuple(row.request for row in self._rows.values())

    @property
    def of_run(self) -> tuple[PermissionRequest, ...]:
        """The open requests that a run waits for; those of background tasks are their own."""
        return tuple(request for request in self.requests if request.task_id is None)

    def next_id(self) -> str:
        """An id that was never used in this session."""
        self._requests += 1
        return f"perm-{self._requests}"

    def add(self, request: PermissionRequest) -> Row:
        row = self._rows[request.request_id] = Row(request)
        return row

    def of_call(self, call_id: str) -> Row | None:
        """The open row of a call."""
        return next((row for row in self._rows.values() if row.request.call_id == call_id), None)

    def is_open(self, row: Row) -> bool:
        return self._rows.get(row.request.request_id) is row

    def get(self, request_id: str) -> Row:
        """Look a row up. Raises: Problem with `already_resolved`, `permission_expired` or `not_found`."""
        row = self._rows.get(request_id)
        if row is not None:
            return row
        resolution = self._resolved.get(request_id)
        if resolution is None:
            raise Problem("not_found", f"There is no permission request {request_id[:40]!r} in this session.")
        details = {"resolution": resolution}
        if resolution == "expired":
            raise Problem("permission_expired", "The request expired before it was answered.", details)
        raise Problem("already_resolved", f"The request was resolved before: {resolution}.", details)

    def take(self, resolution: PermissionResolved) -> Row:
        """Take a row out of the table and remember how it was resolved."""
        row = self._rows.pop(resolution.request_id)
        self._resolved[resolution.request_id] = resolution.resolution
        return row

    def put_back(self, row: Row) -> None:
        """Undo `take`: the resolution could not be journaled."""
        self._resolved.pop(row.request.request_id, None)
        self._rows[row.request.request_id] = row
