"""What we know about Gemini models without asking: how each is told to think, what it can do. Any name is passed on."""

import re

from pydantic import JsonValue

CONTEXT_TOKENS = 1_048_576  # of every text model since 2.5, by the vendor's model pages

_VERSION = re.compile(r"\bgemini-(\d)(?:\.(\d))?\b")
_ALIAS = re.compile(r"\bgemini-.*-latest\b")
_OLDEST, _THINKING, _THIRD = (0, 0), (2, 5), (3, 0)
_NEVER_THINKS = re.compile(r"image|tts")  # models that paint or speak refuse a thinkingConfig, in part or whole

_BUDGETS = {"low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 32_768, "max": 32_768}
"""Tokens. The first three are what the vendor's OpenAI-compatible endpoint makes of `reasoning_effort`, the rest is
the highest budget there is (ai.google.dev: "OpenAI compatibility", "Thinking")."""
_MOST, _MOST_OF_PRO = 24_576, 32_768  # the highest budget of 2.5 Flash and Flash-Lite, and of 2.5 Pro (same source)

_LEVELS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_LEVELS_OF_3_PRO = _LEVELS | {"medium": "high"}  # 3 Pro, unlike 3.1, knows low and high only; high is its default


def is_third_generation(model: str) -> bool:
    """Gemini 3 or later: demands signatures, thinks by levels, and takes tools together with a JSON answer."""
    return _version(model) >= _THIRD


def context_tokens(model: str) -> int | None:
    """The window of a model that no catalogue knows yet."""
    return CONTEXT_TOKENS if _thinks(model) else None


def thinking_config(model: str, effort: str | None) -> dict[str, JsonValue] | None:
    """How to ask for thinking that is shown; None for a model that has none or is not known."""
    if not _thinks(model):
        return None
    config: dict[str, JsonValue] = {"includeThoughts": True}
    if effort not in _BUDGETS:
        return config
    if is_third_generation(model):
        levels = _LEVELS_OF_3_PRO if "gemini-3-pro" in model else _LEVELS
        return config | {"thinkingLevel": levels[effort]}
    return config | {"thinkingBudget": min(_BUDGETS[effort], _MOST_OF_PRO if "-pro" in model else _MOST)}


def _thinks(model: str) -> bool:
    return _version(model) >= _THINKING and not _NEVER_THINKS.search(model)


def _version(model: str) -> tuple[int, int]:
    if found := _VERSION.search(model):
        return int(found[1]), int(found[2] or 0)
    return _THIRD if _ALIAS.search(model) else _OLDEST  # the vendor moves its aliases to the newest generation
