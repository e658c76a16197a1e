"""How long after a cancel the model's connection is closed, for an answer that is being streamed."""

import queue
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.benchmarks.model import delta, opening, read_request
from tests.benchmarks.served import Served, read_until
from tests.benchmarks.table import Row, judge
from tests.daemon import running

ROUNDS = 20
TARGET_MS = 200.0
WAIT_S = 10.0


def cancel() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, _waiting_model() as (url, left):
        environment = {"ANTHROPIC_API_KEY": "benchmark", "ANTHROPIC_BASE_URL": url}
        with running(Path(folder), **environment) as daemon:
            server = Served(daemon)
            ours = max(_ours_ms(server, left) for _ in range(ROUNDS))
        port = int(url.rpartition(":")[2])
        bare = max(_bare_ms(port, left) for _ in range(ROUNDS))
    return [
        Row(
            f"cancel to the end of the model's connection, worst of {ROUNDS}",
            f"{ours:.1f} ms",
            f"{bare:.2f} ms bare close",
            ours / bare,
            f"<= {TARGET_MS:g} ms",
            judge(ours, TARGET_MS),
        )
    ]


def _ours_ms(server: Served, left: "queue.Queue[float]") -> float:
    session = server.session()
    with server.open(session) as stream:
        read_until(stream, b"event: snapshot")
        server.prompt(session, "go")
        read_until(stream, b"event: text_delta")
        began = time.perf_counter()
        server.http.post(f"/v1/sessions/{session}/cancel", json={}).raise_for_status()
        return (left.get(timeout=WAIT_S) - began) * 1000


def _bare_ms(port: int, left: "queue.Queue[float]") -> float:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        read_until(connection, b"text_delta")
        began = time.perf_counter()
    return (left.get(timeout=WAIT_S) - began) * 1000


@contextmanager
def _waiting_model() -> Iterator[tuple[str, "queue.Queue[float]"]]:
    """A model that says one word and then nothing; tells when its listener has left."""
    left: queue.Queue[float] = queue.Queue()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            read_request(connection)
            connection.sendall(opening() + delta())
            while connection.recv(65536):
                pass
        left.put(time.perf_counter())

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", left
        listener.shutdown(socket.SHUT_RDWR)
