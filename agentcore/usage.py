"""Tokens that were spent, in four buckets that do not overlap, plus reasoning."""

from agentcore.values import Value


class Usage(Value):
    """Token counts. The four buckets are disjoint: their sum is what the model read and wrote."""

    input: int = 0
    """Tokens read at full price: neither from the cache nor into it."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """The part of `output` that was reasoning, where the vendor tells."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )

    @property
    def context_tokens(self) -> int:
        """Tokens of the context after this call: all that was read, and the answer."""
        return self.input + self.cache_read + self.cache_write + self.output
