"""The end of a command whose stdout takes nothing more: no traceback, and the exit code that says why.

A reader that has what it wanted (`| head`) is the usual case: quiet, with the code that a shell gives to a program that
SIGPIPE ended.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any

EXIT_NOBODY_READS = 141
"""128 and the number of SIGPIPE."""
EXIT_NOT_WRITTEN = 1


class StdoutLost(OSError):
    """What was said cannot be written; told from the failures of all other files."""


def written(command: Callable[[], int]) -> int:
    """The exit code of a command, once all that it said is written."""
    _take_stdout()
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except StdoutLost as trouble:
        return give_up(trouble)


def give_up(trouble: StdoutLost) -> int:
    """Let what was not written go, and say so unless nobody wants to read it; return the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # else the interpreter tries once more at its end
    os.close(nowhere)
    if trouble.errno == errno.EPIPE:
        return EXIT_NOBODY_READS
    sys.stderr.write(f"agentcore: The output could not be written: {trouble.strerror}.\n")
    return EXIT_NOT_WRITTEN


class _Raw(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            raise StdoutLost(error.errno, error.strerror) from None


def _take_stdout() -> None:
    """Let writing to it fail by a name of its own. A stream that was closed before this process began is none at all:
    what is said there goes nowhere."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the life of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    was = sys.__stdout__
    if was is not None and sys.stdout is was:  # else somebody reads it who called us
        raw = io.BufferedWriter(_Raw(was.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(raw, was.encoding, was.errors, line_buffering=was.line_buffering)
