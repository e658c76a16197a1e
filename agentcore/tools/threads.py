"""Blocking file work in worker threads, with its failures told in words that a model can act on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from anyio import to_thread

from agentcore.permissions.workspace import OutsideRoots
from agentcore.ports.tools import ToolError

T = TypeVar("T")
P = ParamSpec("P")


async def read_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that only reads; a cancelled call leaves it behind."""
    return await to_thread.run_sync(lambda: function(*args, **kwargs), abandon_on_cancel=True)


async def write_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that writes: once begun it goes to its end, and a cancelled call still returns what it did."""
    return await to_thread.run_sync(lambda: function(*args, **kwargs), abandon_on_cancel=False)


@contextmanager
def failures_told(path: str) -> Iterator[None]:
    """Turn what the file system and the workspace refuse into a ToolError that names `path` as the model gave it."""
    try:
        yield
    except OutsideRoots as error:
        raise ToolError(str(error)) from error
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path} is a folder: list it with ls") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or 'cannot be opened'}") from error
