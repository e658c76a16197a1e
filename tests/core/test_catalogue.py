"""Prices and windows: what `genai-prices` computes, from a file that needs no package."""

import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import genai_prices
import pytest
from genai_prices.types import ModelInfo, Provider

from agentcore.providers.catalogue import FILE, Price, catalogue, context_window, cost_usd, vendor_of_host
from agentcore.usage import Usage
from tests import catalogue as generator

THEIR_NAME = {ours: theirs for theirs, ours in generator.OUR_NAME.items()}
PLAIN = Usage(input=1_200, output=345)
CACHED = Usage(input=70, output=2_000, cache_read=50_123, cache_write=4_096)
LONG = Usage(input=1, output=8_000, cache_read=199_999, cache_write=60_000)
THOUGHT = Usage(input=900, output=5_000, reasoning=4_200)


def theirs(vendor: str, model: str) -> tuple[Provider, ModelInfo]:
    """What the package takes the name for. Raises: LookupError."""
    snapshot = genai_prices.data_snapshot.get_snapshot()
    return snapshot.find_provider_model(model, None, THEIR_NAME.get(vendor, vendor), None)


@cache
def hour_of(vendor: str, model: str) -> datetime:
    return generator.dearest_hour(theirs(vendor, model)[1], catalogue().day)


def their_cost(vendor: str, model: str, usage: Usage, at: datetime | None = None) -> float:
    """Let the package compute; its input counts what came from the cache and went into it, ours does not."""
    counted = genai_prices.Usage(
        input_tokens=usage.input + usage.cache_read + usage.cache_write,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output,
        output_reasoning_tokens=usage.reasoning,
    )
    provider, found = theirs(vendor, model)
    return float(found.calc_price(counted, provider, genai_request_timestamp=at or hour_of(vendor, model)).total_price)


PRICED: list[tuple[str, str, Usage]] = [
    ("anthropic", "claude-sonnet-4-5-20250929", PLAIN),
    ("anthropic", "claude-sonnet-4-5-20250929", CACHED),
    ("anthropic", "claude-sonnet-4-5-20250929", LONG),
    ("anthropic", "claude-opus-4-6", LONG),
    ("anthropic", "claude-haiku-4-5", THOUGHT),
    ("anthropic", "Claude-Opus-4-1-20250805", CACHED),
    ("openai", "gpt-4o-mini-2024-07-18", CACHED),
    ("openai", "gpt-4.1", PLAIN),
    ("openai", "gpt-5", CACHED),
    ("openai", "gpt-5.2-20251211", CACHED),
    ("openai", "gpt-5.4", LONG),
    ("openai", "o3", THOUGHT),
    ("gemini", "gemini-2.5-pro", CACHED),
    ("gemini", "gemini-2.5-pro", LONG),
    ("gemini", "gemini-2.5-flash-preview-09-2025", PLAIN),
    ("gemini", "claude-sonnet-4-5@20250929", CACHED),
    ("openrouter", "anthropic/claude-sonnet-4.5", CACHED),
    ("openrouter", "anthropic/claude-sonnet-4.5", LONG),
    ("openrouter", "openai/gpt-4o", PLAIN),
    ("openrouter", "google/gemini-2.5-pro", LONG),
    ("openrouter", "qwen/qwen3-coder", PLAIN),
    ("openrouter", "perplexity/sonar-deep-research", THOUGHT),
    ("openrouter", "moonshotai/kimi-k2.5", CACHED),
    ("azure", "gpt-4.1-2025-04-14", CACHED),
    ("groq", "llama-3.3-70b-versatile", PLAIN),
    ("groq", "openai/gpt-oss-120b", CACHED),
    ("deepseek", "deepseek-chat", CACHED),
    ("deepseek", "deepseek-reasoner", THOUGHT),
    ("deepseek", "deepseek-v4-pro", PLAIN),
    ("mistral", "mistral-large-latest", PLAIN),
    ("mistral", "codestral-2508", PLAIN),
    ("x-ai", "grok-4-0709", LONG),
    ("together", "MiniMaxAI/MiniMax-M3", CACHED),
    ("fireworks", "accounts/fireworks/models/gpt-oss-120b", PLAIN),
    ("cerebras", "gpt-oss-120b", CACHED),
    ("moonshotai", "kimi-k2.5", CACHED),
    ("minimax", "MiniMax-M2", CACHED),
    ("zai", "glm-4.6", CACHED),
]


@pytest.mark.parametrize(("vendor", "model", "usage"), PRICED)
def test_a_call_costs_what_the_package_computes(vendor: str, model: str, usage: Usage) -> None:
    assert cost_usd(vendor, model, usage) == pytest.approx(their_cost(vendor, model, usage), rel=1e-9)


BY_HAND: list[tuple[str, str, Usage, float]] = [
    # 3 in, 15 out, 0.30 from the cache, 3.75 into it
    ("anthropic", "claude-sonnet-4-5", Usage(input=1000, output=1000, cache_read=100_000, cache_write=10_000), 0.0855),
    # above 200,000 tokens read, all of them: 6 in, 22.5 out, 0.60 from the cache; and at the border still the old ones
    ("anthropic", "claude-sonnet-4-5", Usage(input=1, output=1000, cache_read=200_000), 0.142506),
    ("anthropic", "claude-sonnet-4-5", Usage(output=1000, cache_read=200_000), 0.075),
    # 2.5 in, 10 out, 1.25 from the cache; no price for writes, so they are input
    ("openai", "gpt-4o", Usage(input=1000, output=500, cache_read=4000), 0.0125),
    ("openai", "gpt-4o", Usage(input=1000, output=500, cache_write=4000), 0.0175),
    # 1.25 in, 10 out, 0.125 from the cache; reasoning is part of the output
    ("openai", "gpt-5", Usage(input=2000, output=3000, cache_read=8000, reasoning=2500), 0.0335),
    # 2 in, 8 out, 3 for the part that was reasoning
    ("openrouter", "perplexity/sonar-deep-research", Usage(input=1000, output=1000, reasoning=600), 0.007),
    ("anthropic", "claude-sonnet-4-5", Usage(), 0.0),
]


@pytest.mark.parametrize(("vendor", "model", "usage", "usd"), BY_HAND)
def test_buckets_are_priced_one_by_one(vendor: str, model: str, usage: Usage, usd: float) -> None:
    assert cost_usd(vendor, model, usage) == pytest.approx(usd, rel=1e-9)


UNKNOWN: list[tuple[str, str, Usage]] = [
    ("anthropic", "no-such-model", PLAIN),
    ("anthropic", "gpt-4o", PLAIN),
    ("anthropic", "", PLAIN),
    ("lab", "gpt-4o", PLAIN),
    ("ollama", "llama3.2", PLAIN),
    ("scripted", "demo", Usage()),
    ("", "gpt-4o", PLAIN),
    ("google", "gemini-2.5-pro", PLAIN),  # that vendor is `gemini` here
    ("openai", "text-embedding-3-small", PLAIN),  # has no price for output
    ("openrouter", "qwen/qwen3-coder:free", PLAIN),  # known without any price
]


@pytest.mark.parametrize(("vendor", "model", "usage"), UNKNOWN)
def test_what_is_unknown_costs_none_and_not_nothing(vendor: str, model: str, usage: Usage) -> None:
    assert cost_usd(vendor, model, usage) is None


def test_a_price_is_needed_only_where_its_tokens_were_used() -> None:
    assert cost_usd("openai", "text-embedding-3-small", Usage(input=1_000_000)) == pytest.approx(0.02)


WINDOWS: list[tuple[str, str, int | None]] = [
    ("anthropic", "claude-sonnet-4-5-20250929", 200_000),
    ("openai", "gpt-4o-2024-08-06", 128_000),
    ("gemini", "gemini-2.5-flash", 1_048_576),
    ("openai", "gpt-5-image", None),
    ("openai", "no-such-model", None),
    ("lab", "gpt-4o", None),
]


@pytest.mark.parametrize(("vendor", "model", "tokens"), WINDOWS)
def test_the_window_is_known_or_none(vendor: str, model: str, tokens: int | None) -> None:
    assert context_window(vendor, model) == tokens


def names(source: random.Random) -> Iterator[tuple[str, str]]:
    """Every text that the file matches names by; a fifth of them also as gateways and vendors vary it."""
    for vendor, known in catalogue().vendors.items():
        for model in known.models:
            for name in sorted({model.id, *model.equals, *model.starts_with, *model.ends_with, *model.contains}):
                yield vendor, name
                if source.random() < 0.2:
                    yield from ((vendor, f"{name}-20260115"), (vendor, f"{vendor}/{name}"))


def expected(vendor: str, name: str, usage: Usage) -> tuple[int | None, float | None]:
    """Window and cost as the package knows them. It takes a missing price for 0, which is none for us."""
    try:
        found = theirs(vendor, name)[1]
    except LookupError:
        return None, None
    prices = found.get_prices(hour_of(vendor, name))
    is_priced = prices.input_mtok is not None and prices.output_mtok is not None
    return found.context_window, their_cost(vendor, name, usage) if is_priced else None


def test_every_name_means_the_model_that_the_package_takes_it_for() -> None:
    source = random.Random(11)
    known = 0
    for vendor, name in names(source):
        buckets = ("input", "output", "cache_read", "cache_write")
        usage = Usage(**{bucket: source.randrange(1, 150_000) for bucket in buckets})
        window, usd = expected(vendor, name, usage)
        assert context_window(vendor, name) == window, (vendor, name)
        assert cost_usd(vendor, name, usage) == (usd and pytest.approx(usd, rel=1e-9)), (vendor, name, usage)
        known += usd is not None
    assert known > 2000


HOSTS: list[tuple[str, str | None]] = [
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("openrouter.ai", "openrouter"),
    ("API.Groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral"),
    ("api.x.ai", "x-ai"),
    ("api.together.xyz", "together"),
    ("api.together.ai", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("api.cerebras.ai", "cerebras"),
    ("api.moonshot.ai", "moonshotai"),
    ("api.moonshot.cn", "moonshotai"),
    ("api.z.ai", "zai"),
    ("mine.openai.azure.com", "azure"),
    ("bedrock-runtime.us-east-1.amazonaws.com", "aws"),
    ("api.groq.com.example", None),
    ("xapi.groq.com", None),
    ("apixgroq.com", None),
    ("127.0.0.1", None),
    ("localhost", None),
    ("", None),
]


@pytest.mark.parametrize(("host", "vendor"), HOSTS)
def test_a_vendor_is_told_by_the_whole_host(host: str, vendor: str | None) -> None:
    assert vendor_of_host(host) == vendor


def test_the_file_is_what_the_installed_package_gives() -> None:
    text = FILE.read_text("utf-8")
    assert text == generator.render(generator.day_of(text))


def test_the_check_says_when_the_file_is_out_of_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / FILE.name
    monkeypatch.setattr(generator, "FILE", other)
    other.write_text(FILE.read_text("utf-8"), "utf-8")
    assert generator.main(["--check"]) == 0
    other.write_text(FILE.read_text("utf-8").replace('"output":15', '"output":16', 1), "utf-8")
    assert generator.main(["--check"]) == 1
    assert "python -m tests.catalogue" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.day_of(other.read_text("utf-8")) >= catalogue().day


def test_prices_that_change_with_the_hour_are_those_of_the_dearest() -> None:
    usage = Usage(input=1_000_000)
    day = catalogue().day
    dear, cheap = (datetime(day.year, day.month, day.day, hour, tzinfo=UTC) for hour in (2, 20))
    at_hours = [their_cost("deepseek", "deepseek-v4-pro", usage, at) for at in (dear, cheap)]
    assert at_hours[0] > at_hours[1]
    assert cost_usd("deepseek", "deepseek-v4-pro", usage) == at_hours[0]


def each(price: Price | None) -> list[float]:
    if price is None:
        return []
    return [price] if isinstance(price, float) else [usd for _, usd in price]


def test_every_price_is_finite_and_not_negative_and_tiers_rise() -> None:
    for name, vendor in catalogue().vendors.items():
        assert set(vendor.fallback) <= catalogue().vendors.keys(), name
        for model in vendor.models:
            for price in (model.input, model.output, model.cache_read, model.cache_write, model.reasoning):
                assert all(math.isfinite(usd) and usd >= 0 for usd in each(price)), (name, model.id)
                starts = [0] if price is None or isinstance(price, float) else [above for above, _ in price]
                assert starts[0] == 0, (name, model.id)
                assert starts == sorted(set(starts)), (name, model.id)


def test_the_file_is_small_and_keeps_the_vendors_that_we_talk_to() -> None:
    assert FILE.stat().st_size < 400_000
    assert {"anthropic", "openai", "gemini", "openrouter", "groq"} <= json.loads(FILE.read_text("utf-8"))[
        "vendors"
    ].keys()


COST = """
import sys, time
from agentcore.usage import Usage
from agentcore.providers.catalogue import catalogue, cost_usd
assert catalogue.cache_info().currsize == 0, "read at import"
times = [time.process_time()]
assert cost_usd("openrouter", "anthropic/claude-sonnet-4.5", Usage(input=1)) > 0
times.append(time.process_time())
for _ in range(1000):
    cost_usd("openrouter", "no-such-model", Usage(input=1))
times.append(time.process_time())
assert not {"genai_prices", "httpx2", "anthropic"} & sys.modules.keys()
print(times[1] - times[0], times[2] - times[1])
"""


def test_lookups_cost_little_and_load_no_package() -> None:
    """CPU seconds, the best of three: 0.013 for the first when written; 0.005 for 1000 more, 2 if each searched."""
    run = partial(subprocess.run, [sys.executable, "-c", COST], capture_output=True, text=True, check=True, timeout=60)
    firsts, others = zip(*((float(number) for number in run().stdout.split()) for _ in range(3)), strict=True)
    assert min(firsts) < 0.05
    assert min(others) < 0.2
