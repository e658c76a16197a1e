"""A relay with no agent behind it: what a server in Python can reach at most.

It finds the model's events, numbers them, and passes their bytes on as they are, all that is due in one piece.
Nothing is decoded, encoded, journaled or kept.

`python -m tests.benchmarks.relay MODEL_PORT` prints its port and serves until killed.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

END = b"event: done\n\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@contextmanager
def relay(model_url: str) -> Iterator[int]:
    """A relay in a process of its own, as the server under measurement is; gives its port."""
    command = [sys.executable, "-m", "tests.benchmarks.relay", model_url.rpartition(":")[2]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def _serve(model_port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wish = (await reader.readuntil(b"\r\n\r\n")).split(b"?", 1)[1].split(b" ", 1)[0].replace(b"+", b" ")
        writer.write(_HEAD)
        upstream, request = await asyncio.open_connection("127.0.0.1", model_port)
        request.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(wish), wish))
        await upstream.readuntil(b"\r\n\r\n")
        held, seq = b"", 0
        while data := await upstream.read(262144):
            *events, held = (held + data).split(b"\n\n")
            frames = []
            for event in events:
                seq += 1
                frames.append(b"id: %d\n%b\n\n" % (seq, event))
            writer.write(b"".join(frames))
            await writer.drain()
        writer.write(END)
        writer.close()
        request.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1])))
