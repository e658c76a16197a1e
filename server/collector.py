"""Tells Python's cyclic garbage collector what stays for the life of the process.

A provider's SDK is 130,000 objects that never go away. Whenever the collector looked through them it held the event
loop for 90 ms of CPU, usually in the middle of somebody's first prompt.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load what stays: the collector rests meanwhile, and leaves everything that is there afterwards alone.

    Reference counting still frees what is dropped; only cycles among what was there at this moment are kept.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
