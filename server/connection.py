"""One HTTP connection: uvicorn's, with a bound on what comes before a request is known, and our shape of refusal.

uvicorn's fast parser takes request heads of any length, from anybody who can reach the port, before the guard sees
a request at all. Knows bytes only. Promise: the head of a request is bounded, and what cannot be parsed is
answered like every other problem before the connection is closed.
"""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.problems import Problem, answer

HANG_UP = "agentcore.hang_up"
"""Extension of the ASGI scope; its `now` is a function that cuts the connection, with what its buffer still holds."""
MAX_HEAD_BYTES = 64 * 1024  # beyond any cookie or path of ours; one more read may come on top


class Connection(HttpToolsProtocol):
    """The protocol that `daemon` gives to uvicorn."""

    _is_in_head = False
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._is_in_head else 0
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The path and headers of the request are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self.scope["extensions"] = {HANG_UP: {"now": self.transport.abort}}
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        refusal = answer(Problem("bad_request", msg, headers={"Connection": "close"}))
        head = [STATUS_LINE[refusal.status_code]]
        for name, value in [*self.server_state.default_headers, *refusal.raw_headers]:
            head += [name, b": ", value, b"\r\n"]
        self.transport.write(b"".join([*head, b"\r\n", bytes(refusal.body)]))
        self.transport.close()
