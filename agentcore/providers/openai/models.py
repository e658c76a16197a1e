"""What we know about OpenAI's models without asking: names to offer, and how they reason. Others are passed on."""

import re

OFFERED = (
    "gpt-6.1-sol",
    "gpt-6.1-terra",
    "gpt-6-luna",
    "gpt-6-astra",
    "gpt-5.6-sol",
    "gpt-5.5",
    "gpt-5.4-mini",
)
"""Shown to people as a choice; a part of the model list of the openai SDK 3.57 that is not marked as deprecated."""

_LEVELS = ("low", "medium", "high", "xhigh", "max")

# Which efforts a model takes, lowest first. The vendor's reference of `reasoning.effort` says: only `high` for
# gpt-5-pro, `xhigh` from gpt-5.1-codex-max on, `max` from gpt-5.6 on; its model pages say the rest.
_EFFORTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), tuple(efforts.split()))
    for pattern, efforts in (
        (r"gpt-[34]|chatgpt-|gpt-5-chat", ""),
        (r"o\d.*-deep-research", "medium"),
        (r"o\d|codex-mini", "low medium high"),
        (r"gpt-5-pro", "high"),
        (r"gpt-5\.\d-pro", "medium high xhigh"),
        (r"gpt-5\.\d-chat", "medium"),
        (r"gpt-5\.1-codex-max", "low medium high xhigh"),
        (r"gpt-5(\.1)?(?![.\d])", "low medium high"),
        (r"gpt-5\.[2-5]", "low medium high xhigh"),
        (r"gpt-(5\.|[6-9])", "low medium high xhigh max"),
    )
)
"""By the beginning of the name; the first that fits. Models without an effort do not reason."""


def efforts(model: str) -> tuple[str, ...] | None:
    """Return the efforts that a model takes, lowest first: none for one that does not reason, None where unknown."""
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    return next((efforts for pattern, efforts in _EFFORTS if pattern.match(name)), None)


def effort_for(model: str, asked: str) -> str | None:
    """Return the effort to send: the highest that the model takes and that is not above what was asked, else its
    lowest. As it was asked where the model or the word is unknown; None for a model that does not reason."""
    known = efforts(model)
    if known is None or (known and asked not in _LEVELS):
        return asked
    wanted = _LEVELS[: _LEVELS.index(asked) + 1] if asked in _LEVELS else ()
    return next((level for level in reversed(known) if level in wanted), known[0] if known else None)
