"""The barrier around what the server does by itself: what fails there is logged, and everything else goes on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def barrier(what: str) -> Iterator[None]:
    """Log a failure of what is within as one of `what`, and go on behind it."""
    try:
        yield
    except Exception:
        logger.exception("%s failed", what)
