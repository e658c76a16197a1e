"""The texts of hooks as the model gets them: marked, so that it can tell who says it. Pure."""

import re
from collections.abc import Sequence

from agentcore.caps import safe_text
from agentcore.events import UserMessage
from agentcore.messages import Text

MAX_CHARS = 10_000  # the conventions' cap of each text that a hook gives; more goes to a file
_PREVIEW_CHARS = 2_000
_OF_STOP = re.compile(r'<hook-(?:context|feedback) event="Stop">')


def context_text(event: str, text: str) -> str:
    """What a hook adds to what the model knows."""
    return f'<hook-context event="{event}">\n{_plain(text)}\n</hook-context>'


def feedback_text(event: str, text: str) -> str:
    """What a hook objects to; the model is to act on it."""
    return f'<hook-feedback event="{event}">\n{_plain(text)}\n</hook-feedback>'


def is_sent_on(message: UserMessage) -> bool:
    """Whether a message is what Stop hooks said, so that the run went on."""
    first = message.content[0] if message.content else None
    return message.source == "hook" and isinstance(first, Text) and _OF_STOP.match(first.text) is not None


def with_context(message: UserMessage, context: Sequence[str]) -> UserMessage:
    """The message with hooks' texts in front; what the person typed stays apart as its `display_text`."""
    if not context:
        return message
    blocks = tuple(Text(text=text) for text in context)
    return message.model_copy(update={"content": (*blocks, *message.content), "display_text": message.typed_text})


def preview(text: str, file: str | None = None) -> str:
    """The text, or where it is too long its beginning, and where all of it is."""
    if len(text) <= MAX_CHARS:
        return text
    rest = f"the whole text is in {file}" if file is not None else "the rest was not kept"
    return f"{text[:_PREVIEW_CHARS]}\n[… of {len(text):,} characters the first {_PREVIEW_CHARS:,}; {rest} …]"


def _plain(text: str) -> str:
    """None of these texts may end its mark."""
    return safe_text(text).replace("</hook-", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}/hook-").strip()
