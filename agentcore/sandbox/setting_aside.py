"""Protected places that a command made, or links that it bent: taken out of the way when it has ended.

A mount holds only what is there. What a command puts where nothing was (`.envrc`, `.git/hooks`) would act on the
user's machine as soon as he opens the project, so it gets another name, and is told. Blocking.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentcore.files import opened_folder
from agentcore.sandbox.looking import Watched

SUFFIX = ".unapproved"
_TRIES = 100


def set_aside(watched: tuple[Watched, ...]) -> list[str]:
    """Put back what was watched; return a sentence for each place that had changed."""
    return [told for one in watched for told in _mended(one)]


def _mended(one: Watched) -> Iterator[str]:
    if _target(one.path) == one.target and (one.target is not None or not os.path.lexists(one.path)):
        return
    try:
        with opened_folder(one.path.parent) as folder:
            aside = _move(folder, one.path.name)
            if one.target is not None:
                os.symlink(one.target, one.path.name, dir_fd=folder)
    except OSError as error:
        yield f"{one.path.name} is protected, was made by this command, and could not be set aside: {error.strerror}."
        return
    now = "it is gone" if aside is None else f"what this command made is now {aside}"
    yield f"{one.path.name} is protected: {now}. Changing it needs a person: use the file tools."


def _target(path: Path) -> str | None:
    with suppress(OSError):
        return str(path.readlink())
    return None


def _move(folder: int, name: str) -> str | None:
    """Rename an entry of an opened folder; return its new name, None where there is nothing. Raises: OSError."""
    for number in range(1, _TRIES):
        aside = f"{name}{SUFFIX}" if number == 1 else f"{name}{SUFFIX}-{number}"
        try:
            os.stat(aside, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            break
    else:
        raise OSError(errno.EEXIST, "too many of them are there")
    try:
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return None
    return aside
