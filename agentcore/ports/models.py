"""Model services, and what is asked of them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from agentcore.messages import Block, Message
from agentcore.usage import Usage
from agentcore.values import Value


class ToolDefinition(Value):
    """What the model is told about a tool."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]


def _no_blobs(blob: str) -> bytes:
    raise KeyError(blob)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, neutral to any vendor."""

    model: str
    """Without the provider's prefix."""
    system: str
    tools: tuple[ToolDefinition, ...]
    """Sorted by name."""
    messages: Sequence[Message]
    session: str = ""
    """For the vendor's cache routing; not shown to the model."""
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str | None = None
    encoded: dict[str, bytes] = field(default_factory=dict)
    """Wire bytes that the adapter made of earlier messages, by its own key; kept by the caller from call to call,
    so that nothing that was said before is serialised again."""
    blob: Callable[[str], bytes] = _no_blobs
    """The bytes of an image or document of the messages, by its `BlobId`. Raises: KeyError where they are gone."""
    output_schema: Mapping[str, JsonValue] | None = None
    """JSON Schema of the answer's text; set only where the provider `has_structured_output`."""


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """More of a tool call's input has arrived."""

    call_id: str
    tool_name: str
    size_bytes: int
    """Length of the input text so far; 0 when the call begins."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer; comes last, once, and only after the protocol's own terminal event."""

    content: tuple[Block, ...]
    usage: Usage | None
    """None where the service told nothing about it: then the price is not known either."""
    stop: str
    """Neutral where there is a neutral word (`agentcore.stops`), else the vendor's own."""
    detail: str = ""
    """Why the vendor ended it, in its own words, where it says more than `stop`."""


StreamPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | Finished


class Provider(Protocol):
    """One model vendor. Raises only `ProviderError`, from entering the stream or while reading it."""

    name: str

    @property
    def is_local(self) -> bool:
        """It runs on this machine: slow to begin, and no reason to give up early."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[StreamPart]]:
        """Open one model call; leaving the context closes the connection at once."""
        ...

    def context_window(self, model: str) -> int | None:
        """Tokens that fit, where the provider knows."""
        ...

    def has_structured_output(self, model: str) -> bool:
        """Whether the vendor itself can hold an answer to `ModelRequest.output_schema`."""
        ...

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """What one call cost; None where no price is known, never 0 for that."""
        ...

    async def warm(self) -> None:
        """Load the SDK and make the client, so that the first prompt does not wait for it. May be called twice."""
        ...

    async def close(self) -> None: ...
