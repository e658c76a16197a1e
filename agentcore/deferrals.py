"""Tool calls whose result comes later, from outside of the run: by token, until each is answered once.

A fold like the transcript: the same calls build it while a run goes on and when a journal is read back.
"""

from agentcore.session import DeferredCall


class Deferrals:
    def __init__(self) -> None:
        self._open: dict[str, DeferredCall] = {}
        """By token."""
        self._tokens: dict[str, str] = {}
        """Tokens of open ones, by call id."""
        self._settled: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def open(self) -> tuple[DeferredCall, ...]:
        """The calls that wait for their result, oldest first."""
        return tuple(self._open.values())

    def add(self, call: DeferredCall) -> None:
        self._open[call.token] = call
        self._tokens[call.call_id] = call.token

    def find(self, token: str) -> DeferredCall | None:
        """The open call of a token."""
        return self._open.get(token)

    def was_used(self, token: str) -> bool:
        """Whether a call of this session deferred under the token, answered or not."""
        return token in self._open or token in self._settled

    def is_deferred(self, call_id: str) -> bool:
        return call_id in self._tokens

    def settle(self, call_id: str) -> None:
        """The call has its result, from wherever it came."""
        token = self._tokens.pop(call_id, None)
        if token is not None:
            del self._open[token]
            self._settled.add(token)
