"""What a part of an answer carries besides its text or call, kept beside the block it belongs to.

The vendor seals parts with a `thoughtSignature` that must come back on the same part, and gives some calls an id that
must come back as it was, though ids in the transcript may be renamed. `Text` and `ToolCall` have no place for either,
so each stands as an `Opaque` directly before its block: `{"ofNextPart": "text", "thoughtSignature": "…"}`. A mark
whose block is gone (the loop drops the calls of an answer that it ends) is passed over. Any other `Opaque` of ours
is a whole part.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from agentcore.messages import Block, Message, Opaque, Text, Thinking, ToolCall

SIGNATURE, ID = "thoughtSignature", "id"
_OF = "ofNextPart"
_TEXT, _CALL = "text", "functionCall"

Marks = dict[str, JsonValue]


def mark(provider: str, model: str, block: Text | ToolCall, name: str, value: str) -> Opaque:
    """Make the mark that goes directly before a block."""
    raw: Marks = {_OF: _kind(block), name: value}
    return Opaque(provider=provider, model=model, raw=raw)


def is_seal(block: Block) -> bool:
    """Whether the block is a signature, or lives by one: what the vendor can refuse."""
    return (isinstance(block, Opaque) and SIGNATURE in block.raw) or (
        isinstance(block, Thinking) and block.signature is not None
    )


def marked(message: Message, provider: str, model: str) -> Iterator[tuple[Block, Marks]]:
    """Every block but the marks, each with the marks that this model gave it."""
    marks: Marks = {}
    for block in message.content:
        if isinstance(block, Opaque) and _OF in block.raw:
            if (block.provider, block.model) == (provider, model):
                marks = marks | block.raw
            continue
        yield block, ({key: marks[key] for key in (SIGNATURE, ID) if key in marks} if _fits(marks, block) else {})
        marks = {}


def _fits(marks: Marks, block: Block) -> bool:
    return bool(marks) and marks[_OF] == _kind(block)


def _kind(block: Block) -> str:
    return _TEXT if isinstance(block, Text) else _CALL if isinstance(block, ToolCall) else ""
