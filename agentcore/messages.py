"""What the transcript is made of: messages and their blocks, neutral to any vendor.

Every `ToolCall` of an assistant message is followed by exactly one `ToolResult` with its id, all of a batch in
one user message, in the order of the calls.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from agentcore.values import Value

BlobId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 (hex) of a file's bytes: its name in the session's store of blobs."""


class Text(Value):
    type: Literal["text"] = "text"
    text: str


class Thinking(Value):
    """Reasoning of a model; sent back, unchanged, only to the provider and model that made it."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = None
    """The vendor's seal over the block; an altered block is refused by the vendor for good."""
    provider: str
    model: str


class Image(Value):
    """A picture, within the limits of every vendor before it got here; the bytes lie beside the journal."""

    type: Literal["image"] = "image"
    blob: BlobId
    media_type: Literal["image/png", "image/jpeg"]
    size_bytes: int
    width: int
    """In pixels, as `height`."""
    height: int


class Document(Value):
    """A file for the model to read as it is; the bytes lie beside the journal."""

    type: Literal["document"] = "document"
    blob: BlobId
    media_type: Literal["application/pdf"]
    size_bytes: int
    name: str | None = None


Attachment = Image | Document


class ToolCall(Value):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, JsonValue] | None = None
    """None when the argument text was incomplete or no JSON object: such a call is answered, never run."""


class ToolResult(Value):
    type: Literal["tool_result"] = "tool_result"
    call_id: str
    content: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()
    """What the tool showed besides text."""


class Opaque(Value):
    """A block only its vendor understands (redacted thinking, server-side tools); kept verbatim."""

    type: Literal["opaque"] = "opaque"
    provider: str
    model: str
    raw: dict[str, JsonValue]


Block = Annotated[Text | Thinking | Image | Document | ToolCall | ToolResult | Opaque, Field(discriminator="type")]


class Message(Value):
    id: str
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The visible text: all text blocks joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))
