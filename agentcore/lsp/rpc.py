"""JSON-RPC with one language server: requests and their answers, notifications, and what the server itself asks.

Knows no pipes and no tasks: bytes go out through `send`, bodies come in through `take`. Both are plain functions.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from pydantic_core import from_json

from agentcore.lsp.framing import framed

log = logging.getLogger(__name__)

METHOD_NOT_FOUND = -32601
SERVER_CANCELLED = -32802
CONTENT_MODIFIED = -32801
MAX_MESSAGE_CHARS = 300
"""Of an error's words."""


class RpcError(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class NoAnswer(Exception):
    """The server did not answer in time."""


class Gone(Exception):
    """The server ended before it answered; `str(error)` says why."""


class Unknown(Exception):
    """Raised by a handler for a request that it does not know."""


@dataclass(slots=True)
class _Slot:
    """One request that waits for its answer."""

    done: anyio.Event = field(default_factory=anyio.Event)
    result: Any = None
    error: Exception | None = None


class Connection:
    """`answer` is called with what the server asks and returns the result; `hear` with what it tells."""

    def __init__(
        self, send: Callable[[bytes], None], answer: Callable[[str, Any], Any], hear: Callable[[str, Any], None]
    ) -> None:
        self._send = send
        self._answer = answer
        self._hear = hear
        self._slots: dict[int, _Slot] = {}
        self._last_id = 0
        self._gone: str | None = None

    async def request(self, method: str, params: Any, timeout_s: float) -> Any:
        """Ask, and wait for the answer; a caller that is cancelled or tired of waiting tells the server.

        Raises: RpcError, NoAnswer, Gone.
        """
        if self._gone is not None:
            raise Gone(self._gone)
        self._last_id += 1
        number, slot = self._last_id, _Slot()
        self._slots[number] = slot
        try:
            self._say({"id": number, "method": method}, params)
            with anyio.move_on_after(timeout_s):
                await slot.done.wait()
        finally:
            if self._slots.pop(number, None) is not None and self._gone is None and not slot.done.is_set():
                self._say({"method": "$/cancelRequest"}, {"id": number})
        if not slot.done.is_set():
            raise NoAnswer
        if slot.error is not None:
            raise slot.error
        return slot.result

    def notify(self, method: str, params: Any = None) -> None:
        if self._gone is None:
            self._say({"method": method}, params)

    def _say(self, message: dict[str, Any], params: Any) -> None:
        """Without params the key is left out: some servers refuse a null."""
        self._send(framed(message if params is None else {**message, "params": params}))

    def take(self, body: bytes) -> None:
        """One message of the server's. What makes no sense is left out."""
        try:
            message = from_json(body)
        except ValueError:
            log.debug("a message that is no JSON was left out")
            return
        if not isinstance(message, dict):
            return
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._resolve(number, message)
        elif number is None:
            self._hear(method, message.get("params"))
        elif isinstance(number, int | str):
            self._send(framed({"id": number, **self._answered(method, message.get("params"))}))

    def _answered(self, method: str, params: Any) -> dict[str, Any]:
        try:
            return {"result": self._answer(method, params)}
        except Unknown:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"{method[:100]} is not known here"}}

    def _resolve(self, number: object, message: Mapping[str, Any]) -> None:
        """An answer; one that nobody waits for (any more) is left out."""
        slot = self._slots.get(number) if isinstance(number, int) else None
        if slot is None or slot.done.is_set():
            return
        error = message.get("error")
        if isinstance(error, Mapping):
            code = error.get("code")
            words = str(error.get("message", ""))[:MAX_MESSAGE_CHARS]
            slot.error = RpcError(code if isinstance(code, int) else 0, words)
        slot.result = message.get("result")
        slot.done.set()

    def close(self, reason: str) -> None:
        """Nothing comes any more: whoever waits is told."""
        if self._gone is None:
            self._gone = reason
        for slot in self._slots.values():
            slot.error = Gone(self._gone)
            slot.done.set()
