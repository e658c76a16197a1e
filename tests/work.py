"""Pieces of work that behave well or badly, for `confined` to run in a process of its own."""

import os
import sys
from pathlib import Path

from agentcore.errors import Unprocessable


def reverse(data: bytes) -> bytes:
    return data[::-1]


def refuse(data: bytes) -> bytes:
    raise Unprocessable(f"not {data.decode()}")


def fail(data: bytes) -> bytes:
    raise RuntimeError("a bug")


def die(data: bytes) -> bytes:
    os.abort()


def grow(data: bytes) -> bytes:
    held = bytearray()
    while True:
        held += bytes(16 * 1024 * 1024)


def spin(data: bytes) -> bytes:
    while True:
        pass


def wait(data: bytes) -> bytes:
    """Say that it has begun, by a file of the given name, and never end."""
    Path(data.decode()).write_text(str(os.getpid()))
    sys.stdin.buffer.read()
    while True:
        os.read(os.pipe()[0], 1)


def environment(data: bytes) -> bytes:
    return "\n".join(sorted(os.environ)).encode()
