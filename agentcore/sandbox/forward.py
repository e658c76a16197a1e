"""Runs inside of the sandbox: brings connections to a port of its loopback to the proxy's socket, and runs a command.

`python -IS forward.py SOCKET PORT ARGV…`; a program of its own, which knows nothing but the standard library.
"""

import os
import signal
import socket
import sys
import threading


def main(path: str, port: int, argv: list[str]) -> int:
    """Listen, run the command, and end with it; its exit code, as a shell tells it."""
    server = socket.create_server(("127.0.0.1", port))
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # what this interpreter ignores a command must not
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606 - the command itself
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is for the command; this one ends with it
    threading.Thread(target=accept, args=(server, path), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def accept(server: socket.socket, path: str) -> None:
    while True:
        client, _ = server.accept()
        threading.Thread(target=join, args=(client, path), daemon=True).start()


def join(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as proxy:
        proxy.connect(path)
        back = threading.Thread(target=pump, args=(proxy, client), daemon=True)
        back.start()
        pump(client, proxy)
        back.join()


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # one of them is gone
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


if __name__ == "__main__":
    status = main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    sys.stdout.flush()
    os._exit(status)  # threads may be in the middle of a connection that nobody needs any more
