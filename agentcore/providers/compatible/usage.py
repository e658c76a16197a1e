"""Token counts of Chat Completions, in the spellings of its services, as our buckets."""

from agentcore.providers.growing import Wire, count, details
from agentcore.usage import Usage


def usage_of(counts: Wire) -> Usage:
    """Cached tokens are part of `prompt_tokens`, unless there are more of them than that. Reasoning is part of
    `completion_tokens`, unless the total says that it comes on top (xAI)."""
    read_details = details(counts, "prompt_tokens_details")
    prompt, answer = count(counts, "prompt_tokens"), count(counts, "completion_tokens")
    cache_read = _first(
        count(read_details, "cached_tokens"),
        count(counts, "prompt_cache_hit_tokens"),  # DeepSeek
        count(counts, "cache_read_input_tokens"),  # Databricks
        count(counts, "cached_tokens"),  # Moonshot
    )
    cache_write = _first(
        count(read_details, "cache_write_tokens"),  # OpenRouter
        count(counts, "cache_creation_input_tokens"),  # Databricks, Vercel
    )
    cached = cache_read + cache_write
    reasoning = count(details(counts, "completion_tokens_details"), "reasoning_tokens")
    is_on_top = count(counts, "total_tokens") == prompt + answer + reasoning
    return Usage(
        input=prompt - cached if cached <= prompt else prompt,
        output=answer + reasoning if is_on_top else answer,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
    )


def _first(*counts: int) -> int:
    return next(filter(None, counts), 0)
