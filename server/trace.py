"""`agentcore trace SESSION`: what happened in a session on disk, as lines or as a page, with or without a server."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from agentcore.environment import command_environ
from agentcore.errors import AgentError, NotFound
from agentcore.redaction import Redactor
from agentcore.traces import find_trace
from server.settings import CannotStart, folders
from server.terminal import no_session, visible


def main(session: str, *, page: Path | None, state_dir: Path | None) -> int:
    """Tell it on stdout, or write it as HTML; return the exit code. Raises: CannotStart."""
    sessions = folders(state_dir).data / "sessions"
    try:
        trace = find_trace(sessions, session, Redactor(_secrets()))
        if page is not None:
            _write(page, b"".join(trace.page()))
            return 0
    except NotFound as error:
        raise CannotStart(no_session(session, sessions)) from error
    except AgentError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"{error.filename or 'The trace'}: {error.strerror}.") from error
    sys.stdout.write("".join(f"{visible(line)}\n" for line in trace.lines()))
    return 0


def _secrets() -> Iterator[str]:
    """The values of this environment that no command would get."""
    kept = command_environ(os.environ)
    return (value for name, value in os.environ.items() if name not in kept)


def _write(page: Path, content: bytes) -> None:
    """For this user alone: it may show anything that was said."""
    file = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as opened:
        os.fchmod(file, 0o600)
        opened.write(content)
