"""Makes the scanner of an App: the built-in one, and beside it what others bring.

Others bring theirs as an object, or as an entry point of the group `agentcore.scanners` that names a function without
arguments (a class, say) which returns a scanner. Nothing is loaded while the guard is off.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from agentcore.errors import Unprocessable
from agentcore.guard.guard import Mode
from agentcore.guard.scanning import Finding, Scanner

GROUP = "agentcore.scanners"


@dataclass(frozen=True, slots=True)
class Scanners:
    """Several scanners as one: what any of them finds is found, and where one fails all of them do."""

    all: tuple[Scanner, ...]

    def scan(self, text: str) -> Sequence[Finding]:
        return [one for scanner in self.all for one in scanner.scan(text)]


def installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def make_scanner(
    mode: Mode,
    known: Iterable[str] = (),
    own: Iterable[Scanner] = (),
    installed: Callable[[], Iterable[EntryPoint]] = installed,
) -> Scanner | None:
    """The scanner for a mode; None when it is off. Blocking: it loads libraries.

    `known` are secrets of this process, `own` are scanners that were handed to the App. Raises: Unprocessable when one
    of them cannot be made: a guard that looks at less than it should is none.
    """
    if mode == "off":
        return None
    plugged = [_plugged(entry) for entry in sorted(installed(), key=lambda entry: entry.name)]
    return Scanners((_built_in(known), *plugged, *own))


def _built_in(known: Iterable[str]) -> Scanner:
    try:
        from agentcore.guard.builtin import BuiltIn

        return BuiltIn(known)
    except ImportError as error:
        raise Unprocessable(
            f"The guard is on, but its library {error.name or 'for numbers'} is not there: install the server again, "
            'or set `mode = "off"` under [guard].'
        ) from error


def _plugged(entry: EntryPoint) -> Scanner:
    try:
        scanner: Scanner = entry.load()()
    except Exception as error:
        raise Unprocessable(
            f"The guard is on, but the scanner {entry.name!r} ({entry.value}) cannot be made "
            f'({type(error).__name__}): mend or remove its package, or set `mode = "off"` under [guard].'
        ) from error
    if not callable(getattr(scanner, "scan", None)):
        raise Unprocessable(f"The scanner {entry.name!r} ({entry.value}) has no method `scan`.")
    return scanner
