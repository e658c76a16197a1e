"""A model on loopback that says what it is told: `deltas N` in the newest prompt gives N text deltas, at once.

Speaks as much of Anthropic's Messages API as the adapter needs, from a thread of its own with blocking sockets, so
that it never waits for the event loop of the benchmark.
"""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WORD = "word "
_WISH = re.compile(rb"deltas (\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_PIECE = 250  # deltas in one write


@contextmanager
def model() -> Iterator[str]:
    """Serve until left; gives the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        wishes = _WISH.findall(read_request(connection))
        connection.sendall(opening())
        left, word = int(wishes[-1]) if wishes else 1, delta()
        while left > 0:
            connection.sendall(word * min(left, _PIECE))
            left -= _PIECE
        connection.sendall(b"".join(map(_event, _closing())))


def read_request(connection: socket.socket) -> bytes:
    """The body of one request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    missing = (int(found[1]) if found else 0) - len(body)
    pieces = [body]
    while missing > 0:
        pieces.append(connection.recv(65536))
        missing -= len(pieces[-1])
    return b"".join(pieces)


def _event(data: dict[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(data["type"]).encode(), json.dumps(data).encode())


def opening() -> bytes:
    """Everything of an answer up to its first word."""
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    return _HEAD + b"".join(map(_event, events))


def delta() -> bytes:
    return _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}})


def _closing() -> list[dict[str, object]]:
    return [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
