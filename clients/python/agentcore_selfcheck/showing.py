"""What people look at while the checks run, and the table at the end."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agentcore_selfcheck.verdicts import Check

_STYLES = {
    "held": "green",
    "BROKEN": "bold red",
    "not tried": "yellow",
    "unclear": "yellow",
    "interrupted": "yellow",
    "": "dim",
}


@dataclass
class Row:
    check: Check
    verdict: str = ""
    """held, BROKEN, not tried, unclear (the check itself broke), interrupted (by a person); empty while it is open."""
    detail: str = ""
    seconds: float | None = None
    is_running: bool = False


class Board:
    """A table that is alive on a terminal; where nothing can be moved about, one line for each check as it ends."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self.rows = [Row(check) for check in checks]
        self._console = Console()
        # asked of the file itself: FORCE_COLOR makes a terminal of everything
        self._is_alive = self._console.file.isatty() and not self._console.is_dumb_terminal
        self._spinner = Spinner("dots")

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self._is_alive:
            yield
            return
        with Live(get_renderable=self._table, console=self._console, refresh_per_second=10):
            yield

    @contextmanager
    def running(self, row: Row) -> Iterator[None]:
        row.is_running, began = True, time.monotonic()
        try:
            yield
        except KeyboardInterrupt:
            row.verdict = "interrupted"
            raise
        finally:
            row.is_running, row.seconds = False, time.monotonic() - began
            if not self._is_alive:
                self._console.out(_line(row), highlight=False)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("", "promise", "what was seen"):
            table.add_column(column, overflow="fold")
        for row in self.rows:
            mark = self._spinner if row.is_running else Text(row.verdict, _STYLES[row.verdict])
            table.add_row(mark, row.check.promise, Text(row.detail, "dim" if row.is_running else ""))
        return table


def _line(row: Row) -> str:
    return f"{row.verdict:<10} {row.check.promise}: {row.detail} ({row.seconds or 0:.1f} s)"
