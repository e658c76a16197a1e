"""The files that were shown in a conversation, and which of them a request can still hold.

Vendors bound a request in bytes and files, whatever was shown when. Without a bound of ours the first prompt above it
would fail, and every one after it. The oldest files are left out then, many at a time, since each time the vendor's
cache of the conversation begins anew.
"""

from collections.abc import Iterator, Sequence

from agentcore.messages import Attachment, Block, Document, Image, Message, ToolResult

MAX_BYTES = 22_000_000  # Anthropic takes 32 MB a request, and base64 makes four of three
MAX_FILES = 90  # Anthropic takes 100 images a request
_KEPT_SHARE = 0.5


class Attached:
    """Running totals, so that a long conversation is not counted anew with each request."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.count = 0
        self.left_out: frozenset[str] = frozenset()
        """Blobs that are shown no more."""

    def add(self, content: Sequence[Block]) -> None:
        for one in _in(content):
            self.size_bytes += one.size_bytes
            self.count += 1

    @property
    def is_too_much(self) -> bool:
        return self.size_bytes > MAX_BYTES or self.count > MAX_FILES

    def leave_out(self, messages: Sequence[Message]) -> int:
        """Keep the newest files that fill half a request; return how many older ones are left out from now on."""
        kept, size, count = set[str](), 0, 0
        dropped = set(self.left_out)
        for one in reversed([one for message in messages for one in _in(message.content)]):
            if one.blob in dropped and one.blob not in kept:
                continue
            if size + one.size_bytes <= MAX_BYTES * _KEPT_SHARE and count < MAX_FILES * _KEPT_SHARE:
                kept.add(one.blob)
                size, count = size + one.size_bytes, count + 1
            elif one.blob not in kept:
                dropped.add(one.blob)
        new = len(dropped) - len(self.left_out)
        self.size_bytes, self.count, self.left_out = size, count, frozenset(dropped)
        return new


def _in(content: Sequence[Block]) -> Iterator[Attachment]:
    for block in content:
        match block:
            case Image() | Document():
                yield block
            case ToolResult(attachments=attachments):
                yield from attachments
