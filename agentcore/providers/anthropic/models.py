"""What we know about Claude models without asking: names to offer, limits to respect. Any other name is passed on."""

OFFERED = (
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-5-5",
)
"""Shown to people as a choice; a part of the model list of the anthropic SDK 2.14."""

CONTEXT_TOKENS = 200_000  # what every Claude model takes; the newest take more, which a caller may know better

_OUTPUT_TOKENS = (
    # Output limits of the vendor's model overview. 32,000 is the lowest limit of the models since 3.7 and leaves
    # most of the window to the conversation: older models refuse input + max_tokens above the window.
    ("claude-3-opus", 4_096),
    ("claude-3-sonnet", 4_096),
    ("claude-3-haiku", 4_096),
    ("claude-3-5-", 8_192),
    ("claude-", 32_000),
)
_OUTPUT_TOKENS_ELSEWHERE = 8_192  # small models behind a compatible server


def output_tokens(model: str) -> int:
    """Return the `max_tokens` to ask for when the caller names none."""
    return next((limit for prefix, limit in _OUTPUT_TOKENS if model.startswith(prefix)), _OUTPUT_TOKENS_ELSEWHERE)


def context_tokens(model: str) -> int | None:
    return CONTEXT_TOKENS if model.startswith("claude-") else None
