"""Following one prompt through the stream of its session: what to show, whom to ask, where it ends. No I/O."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from agentcore.events import Done, Gap, Lagging, NumberedEvent, PermissionRequest, ServerStopping, UserMessage
from agentcore_client.cursor import Cursor
from agentcore_client.errors import ApiError
from agentcore_client.frames import Snapshot, StreamEvent, UnknownEvent
from agentcore_client.values import Answer

PromptEvent: TypeAlias = NumberedEvent | UnknownEvent | Gap
"""What `prompt` yields: everything but the connection's own comings and goings."""

Verdict: TypeAlias = bool | Answer | None
"""True or False, an `Answer` that says more, or None to leave the request to somebody else."""

OnPermission: TypeAlias = Callable[[PermissionRequest], Verdict]
OnPermissionAsync: TypeAlias = Callable[[PermissionRequest], Verdict | Awaitable[Verdict]]

_SETTLED = frozenset({"already_resolved", "permission_expired"})


class PromptWatch:
    """What the stream has told about one prompt and about the requests on the way."""

    def __init__(self, prompt_id: str, cursor: Cursor) -> None:
        self._prompt_id = prompt_id
        self._cursor = cursor
        self._has_begun = False
        self._open: frozenset[str] = frozenset()
        self._offered: set[str] = set()

    def due(self, event: StreamEvent) -> list[PermissionRequest]:
        """The requests to ask about now, each once.

        A replay brings requests that were answered long ago; the snapshot knows which of them are still open.
        Those with a number that the replay will bring again are left to it, so that they are asked in their place.
        """
        requests: list[PermissionRequest] = []
        match event:
            case Snapshot(permissions=permissions):
                self._open = frozenset(request.request_id for request in permissions)
                requests = [request for request in permissions if request.seq <= (self._cursor.seq or 0)]
            case PermissionRequest(seq=seq, request_id=request_id):
                is_open = seq > self._cursor.head or request_id in self._open
                requests = [event] if is_open else []
            case _:
                pass
        fresh = [request for request in requests if request.request_id not in self._offered]
        self._offered.update(request.request_id for request in fresh)
        return fresh

    def is_end(self, event: StreamEvent) -> bool:
        """Whether this is the prompt's own `done`: for a steering prompt, that of the run which took it in."""
        match event:
            case UserMessage(prompt_id=self._prompt_id):
                self._has_begun = True
            case Done(prompt_id=prompt_id):
                return self._has_begun or prompt_id == self._prompt_id
            case _:
                pass
        return False


def shown(event: StreamEvent) -> PromptEvent | None:
    """The event if it is about the session, None if it is about the connection."""
    return None if isinstance(event, Snapshot | Lagging | ServerStopping) else event


def as_answer(verdict: Verdict, request: PermissionRequest) -> Answer | None:
    """The answer to send, bound to the request as it was shown; None to send nothing."""
    match verdict:
        case None:
            return None
        case bool():
            return Answer(allow=verdict, digest=request.digest)
        case Answer():
            return verdict.about(request)


def is_settled(error: ApiError) -> bool:
    """Whether the request needs no answer any more: somebody was faster, or its time is over."""
    return error.code in _SETTLED
