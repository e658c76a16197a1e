"""What a call costs and how much a model can hold, from a file that comes with us: no network, no SDK.

`catalogue.json` is written by `python -m tests.catalogue` from the package `genai-prices`, as of the day that stands in
it, and is read at the first question. Knows list prices alone: no discounts, batch or priority tiers, and cache writes
at the price of five minutes, since `Usage` does not tell how long they are kept. Promise: what is not known is None,
never 0.
"""

import math
import re
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from agentcore.usage import Usage

FILE = Path(__file__).with_name("catalogue.json")

MTOK = 1_000_000
NAMES_KEPT = 1024  # answers of `_find` that are kept; names come from people, so there must be an end to them

Price = float | tuple[tuple[int, float], ...]
"""USD per million tokens; or pairs, the lowest first: from more tokens read than this on, all tokens cost that."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of one vendor: how it is called, what it holds, what its tokens cost."""

    id: str
    equals: frozenset[str] = frozenset()
    starts_with: tuple[str, ...] = ()
    ends_with: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    window: int | None = None
    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None
    reasoning: Price | None = None

    def is_called(self, name: str) -> bool:
        """Tell whether a name in lower case means this model; any one of the ways to match is enough."""
        return (
            name in self.equals
            or name.startswith(self.starts_with)
            or name.endswith(self.ends_with)
            or any(part in name for part in self.contains)
            or any(re.search(pattern, name) for pattern in self.regex)
        )


@dataclass(frozen=True, slots=True)
class Vendor:
    """A service: its host names as a pattern, its models in the order in which names are tried, and what it resells."""

    hosts: str
    fallback: tuple[str, ...]
    """Vendors whose models it serves as well, at their price."""
    models: tuple[Model, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The whole file."""

    about: str
    day: date
    """The prices are those of this day."""
    package: str
    vendors: dict[str, Vendor]


@cache
def catalogue() -> Catalogue:
    """Read the file, once in a process."""
    return TypeAdapter(Catalogue).validate_json(FILE.read_bytes())


def cost_usd(vendor: str, model: str, usage: Usage) -> float | None:
    """Return the list price in USD of one model call, None where the vendor, model or a price needed is unknown.

    One call, because the price of some models depends on how much a call reads. Cached tokens without a price of their
    own are priced as input: a vendor that names no such price gives no discount (`genai-prices` does the same).
    """
    found = _find(vendor, model)
    if found is None:
        return None
    reasoning = min(usage.reasoning, usage.output) if found.reasoning is not None else 0
    parts = (
        (usage.input, found.input),
        (usage.cache_read, found.input if found.cache_read is None else found.cache_read),
        (usage.cache_write, found.input if found.cache_write is None else found.cache_write),
        (usage.output - reasoning, found.output),
        (reasoning, found.reasoning),
    )
    read = usage.input + usage.cache_read + usage.cache_write
    used = [(tokens, price) for tokens, price in parts if tokens]
    try:
        known = [tokens * _usd_per_mtok(price, read) / MTOK for tokens, price in used if price is not None]
        return math.fsum(known) if len(known) == len(used) else None
    except OverflowError:  # a count that no model can have
        return None


def context_window(vendor: str, model: str) -> int | None:
    """Return how many tokens the model can hold, None where that is unknown."""
    found = _find(vendor, model)
    return found.window if found is not None else None


def prices(vendor: str, model: str) -> tuple[float | None, float | None]:
    """Return what a million tokens cost in USD, read and written; of a short call where long ones cost more."""
    found = _find(vendor, model)
    if found is None:
        return None, None
    read, written = (None if price is None else _usd_per_mtok(price, 0) for price in (found.input, found.output))
    return read, written


@lru_cache(NAMES_KEPT)
def vendor_of_host(host: str) -> str | None:
    """Name the vendor behind a host name without port, such as `api.groq.com`; None for all others."""
    found = (name for name, vendor in catalogue().vendors.items() if re.fullmatch(vendor.hosts, host.lower()))
    return next(found, None)


def _usd_per_mtok(price: Price, read: int) -> float:
    if isinstance(price, float):
        return price
    return next((usd for above, usd in reversed(price) if read > above), price[0][1])


@lru_cache(NAMES_KEPT)
def _find(vendor: str, model: str) -> Model | None:
    known = catalogue().vendors.get(vendor)
    if known is None:
        return None
    name = model.lower()
    return _first(known, name) or _first(known, _with_dashes(name))


def _first(vendor: Vendor, name: str) -> Model | None:
    vendors = (vendor, *(catalogue().vendors[other] for other in vendor.fallback))
    return next((model for each in vendors for model in each.models if model.is_called(name)), None)


def _with_dashes(name: str) -> str:
    """Write a date at the end of a name as the vendors do: gateways make `-20251211` of `-2025-12-11`."""
    return re.sub(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)", r"-\1-\2-\3", name)
