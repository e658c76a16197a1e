"""What `lstat` says of a file: equal while nothing about it was changed.

File systems stamp with a clock that ticks: two changes within one tick look the same. So an equal print proves
something only where it was taken a tick after the change before it (`settled_print_of`).
"""

import os
import stat
import time
from pathlib import Path
from typing import TypeAlias

CLOCK_NS = 50_000_000
"""File systems stamp with a clock that lags behind by a tick; five of a slow one."""

Print: TypeAlias = tuple[int, int, int, int, int]
"""Inode, size, modification and status change in nanoseconds, mode: equal while nothing was changed."""


def print_of(path: bytes | Path) -> Print | None:
    """None where there is nothing, or nothing that can be looked at."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def settled_print_of(path: Path) -> Print | None:
    """The print of a regular file as long as every later change shows in it: not within a tick of the last one.

    To be taken before the file is read.
    """
    now_ns = time.time_ns()
    seen = print_of(path)
    if seen is None or not stat.S_ISREG(seen[4]) or seen[3] >= now_ns - CLOCK_NS:
        return None
    return seen
