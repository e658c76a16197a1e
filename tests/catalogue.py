"""Writes `agentcore/providers/catalogue.json`, the prices and windows that the server knows without a network.

They come from the package `genai-prices`, which is needed here and in the tests alone: importing it costs 0.9 s and
30 MiB. `python -m tests.catalogue` writes the file as of today; `--check` says whether the file is what the installed
package gives for the day that is written in it. Promise: the same package and day give the same bytes.

What changes with time is flattened: prices are those of that day, and where they change with the hour (DeepSeek) the
dearest hour is taken, so that a budget is not overrun. Prices of other service tiers (batch, flex, priority), of one
hour cache writes, and of sound, images and searches are left out.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
from genai_prices.data import providers
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    TieredPrices,
)

FILE = Path(__file__).resolve().parent.parent / "agentcore" / "providers" / "catalogue.json"

OUR_NAME = {"google": "gemini"}
"""Where we call a vendor otherwise than the package does."""

KEPT = frozenset(
    {
        *("anthropic", "aws", "azure", "baseten", "cerebras", "cohere", "deepseek", "fireworks"),
        *("google", "groq", "meta", "minimax", "mistral", "moonshotai", "novita", "openai"),
        *("openrouter", "ovhcloud", "together", "x-ai", "zai", "zhipuai"),
    }
)
"""Services that an adapter of ours can talk to and that are told from each other by their host alone."""

MORE_HOSTS = {"together": r"api\.together\.ai"}
"""Hosts that the package does not know. Together's documentation names this one beside `api.together.xyz`."""

BUCKETS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "reasoning": "output_reasoning_mtok",
}
"""Our name of a price, and the package's. All are USD per million tokens."""

ABOUT = "USD per million tokens, windows in tokens. Written by python -m tests.catalogue; do not edit."

Entry = dict[str, Any]


def render(day: date) -> str:
    """Return the text of the file, one model a line, in the package's order: the first that matches is meant."""
    package = f"genai-prices {genai_prices.__version__}"
    head = [f'"{key}":{_line(value)}' for key, value in (("about", ABOUT), ("day", str(day)), ("package", package))]
    vendors = [_vendor(vendor, day) for vendor in providers if vendor.id in KEPT]
    return "{" + ",\n".join(head) + ',\n"vendors":{\n' + ",\n".join(vendors) + "\n}}\n"


def day_of(text: str) -> date:
    """Read from the text of the file the day whose prices it holds."""
    return date.fromisoformat(json.loads(text)["day"])


def dearest_hour(model: ModelInfo, day: date) -> datetime:
    """Find the first half hour (UTC) of the day at which the model costs most. Half: DeepSeek changed at 0:30."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return max((midnight + timedelta(minutes=30 * step) for step in range(48)), key=lambda at: _dearness(model, at))


def _dearness(model: ModelInfo, at: datetime) -> Decimal:
    prices = model.get_prices(at)
    both = (prices.input_mtok, prices.output_mtok)
    return sum((price.base if isinstance(price, TieredPrices) else price or Decimal(0) for price in both), Decimal(0))


def _vendor(vendor: Provider, day: date) -> str:
    name = OUR_NAME.get(vendor.id, vendor.id)
    fallback = [OUR_NAME.get(other, other) for other in vendor.fallback_model_providers or () if other in KEPT]
    head = f'"{name}":{{"hosts":{_line(_hosts(vendor))},"fallback":{_line(fallback)},"models":[\n'
    return head + ",\n".join(_line(_model(model, day)) for model in vendor.models) + "\n]}"


def _hosts(vendor: Provider) -> str:
    """Reduce the package's pattern of URLs to one of whole host names."""
    host = re.sub(r"^(https://|\(https\?://\)\?)|\((\?:)?/\|\$\)$", "", vendor.api_pattern)
    assert "/" not in host, f"{vendor.id} is not told by its host: {vendor.api_pattern}"
    if host.endswith(r"\."):  # open at the end: the service has more than one top-level domain
        host += "[a-z]+"
    return "|".join([host, MORE_HOSTS[vendor.id]]) if vendor.id in MORE_HOSTS else host


def _model(model: ModelInfo, day: date) -> Entry:
    entry: Entry = {"id": model.id, **_match(model.match)}
    if model.context_window is not None:
        entry["window"] = model.context_window
    return entry | _prices(model.get_prices(dearest_hour(model, day)))


def _prices(prices: ModelPrice) -> Entry:
    found = {ours: getattr(prices, theirs) for ours, theirs in BUCKETS.items()}
    return {ours: _price(price) for ours, price in found.items() if price is not None}


def _price(price: Decimal | TieredPrices) -> Any:
    """A number, or pairs of (more input tokens than this, then all tokens cost this), the lowest first."""
    if isinstance(price, TieredPrices):
        return [[0, _number(price.base)], *([tier.start, _number(tier.price)] for tier in price.tiers)]
    return _number(price)


def _number(price: Decimal) -> int | float:
    return int(price) if price == int(price) else float(price)


def _match(clause: MatchLogic) -> dict[str, list[str]]:
    """Sort the ways in which a name may match by their kind; each is enough. All text is lower case, as names are."""
    found: dict[str, list[str]] = {}
    for kind, text in _flat(clause):
        found.setdefault(kind, []).append(text)
    return {kind: sorted(set(texts)) for kind, texts in sorted(found.items())}


def _flat(clause: MatchLogic) -> Iterator[tuple[str, str]]:
    match clause:
        case ClauseOr(or_=parts):
            for part in parts:
                yield from _flat(part)
        case ClauseEquals(equals=text):
            yield "equals", text.lower()
        case ClauseStartsWith(starts_with=text):
            yield "starts_with", text.lower()
        case ClauseEndsWith(ends_with=text):
            yield "ends_with", text.lower()
        case ClauseContains(contains=text):
            yield "contains", text.lower()
        case ClauseRegex() | ClauseAnd():
            yield "regex", _regex(clause)


def _regex(clause: MatchLogic) -> str:
    """Say the same as one expression to search for; clauses that all must hold look ahead from the beginning."""
    match clause:
        case ClauseRegex(regex=regex):
            return regex
        case ClauseEquals(equals=text):
            return rf"^{re.escape(text.lower())}$"
        case ClauseStartsWith(starts_with=text):
            return f"^{re.escape(text.lower())}"
        case ClauseEndsWith(ends_with=text):
            return rf"{re.escape(text.lower())}$"
        case ClauseContains(contains=text):
            return re.escape(text.lower())
        case ClauseOr(or_=parts):
            return "|".join(f"(?:{_regex(part)})" for part in parts)
        case ClauseAnd(and_=parts):
            return "^" + "".join(f"(?=.*?(?:{_regex(part)}))" for part in parts)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main(arguments: list[str]) -> int:
    """Write the file as of today; with `--check`, only say whether it is in step."""
    if arguments == ["--check"]:
        text = FILE.read_text("utf-8")
        if text == render(day_of(text)):
            return 0
        sys.stderr.write(f"{FILE.name} is not what the installed package gives; run: python -m tests.catalogue\n")
        return 1
    FILE.write_text(render(datetime.now(UTC).date()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
