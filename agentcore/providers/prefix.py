"""The wire bytes of messages, made once and kept: what every request of a conversation begins with.

The bytes of a message depend on nothing but the message, the provider and the model, so a message that keeps its id
must never change. They lie in `ModelRequest.encoded`; those of older messages are kept as one piece, so a request
costs the same in a long conversation as in a short one.
"""

from collections.abc import Callable, Sequence

from agentcore.messages import Block, Message
from agentcore.ports.models import ModelRequest

NEWER_MESSAGES = 64  # looked at one by one; with twice as many the older half joins the piece before it

GONE = "[a file that was shown here is not shown any more]"
"""In the place of an attachment whose bytes are missing."""

Encode = Callable[[Message], bytes]
"""One message as the vendor's JSON, several values joined by commas, or b"" where nothing of it may be sent."""


def encoded_messages(request: ModelRequest, provider: str, encode: Encode) -> tuple[bytes, list[bytes]]:
    """The joined bytes of the older messages, and those of each newer one."""
    kept, messages, prefix = request.encoded, request.messages, _prefix(provider, request.model)
    start = len(messages)
    while start and _until(prefix, messages[start - 1]) not in kept:
        start -= 1
    older = kept[_until(prefix, messages[start - 1])] if start else b""
    newer = []
    for message in messages[start:]:
        key = prefix + message.id
        wire = kept.get(key)
        if wire is None:
            wire = kept[key] = encode(message)
        newer.append(wire)
    if len(newer) < 2 * NEWER_MESSAGES:
        return older, newer
    return _join_older(request, prefix, older, newer), newer[-NEWER_MESSAGES:]


def withhold(request: ModelRequest, provider: str, encode: Encode, is_withheld: Callable[[Block], bool]) -> bool:
    """Keep the messages of this request without some of their blocks from now on; whether that changes any bytes.

    Later messages are sent whole again: the vendor has only refused what there is now.
    """
    is_changed = False
    prefix = _prefix(provider, request.model)
    for key in [key for key in request.encoded if key.startswith(f"{prefix}..")]:
        del request.encoded[key]
    for message in request.messages:
        left = tuple(block for block in message.content if not is_withheld(block))
        if len(left) < len(message.content):
            wire = encode(message.model_copy(update={"content": left}))
            is_changed = is_changed or request.encoded.get(prefix + message.id) != wire
            request.encoded[prefix + message.id] = wire
    return is_changed


def joined(wires: Sequence[bytes]) -> bytes:
    return b",".join(filter(None, wires))


def _join_older(request: ModelRequest, prefix: str, older: bytes, newer: Sequence[bytes]) -> bytes:
    """Keep all but the newest messages as one piece, in the place of their own bytes and of the piece before."""
    kept, messages = request.encoded, request.messages
    start, end = len(messages) - len(newer), len(messages) - NEWER_MESSAGES
    for message in messages[start:end]:
        del kept[prefix + message.id]
    if start:
        del kept[_until(prefix, messages[start - 1])]
    piece = kept[_until(prefix, messages[end - 1])] = joined([older, *newer[:-NEWER_MESSAGES]])
    return piece


def _until(prefix: str, message: Message) -> str:
    """The key of the joined bytes of all messages up to this one."""
    return f"{prefix}..{message.id}"


def _prefix(provider: str, model: str) -> str:
    """What the keys of all messages begin with: the bytes differ from model to model."""
    return f"{provider}:{model}:"
