"""What a server answers, as text and files for the model.

Pictures and PDF go through the same door as everybody's (`media`), within bounds; what cannot be shown is named.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentcore.caps import HARD_LIMIT_BYTES, cap_output, safe_text
from agentcore.errors import AgentError, StorageUnavailable
from agentcore.media import PDF, keep
from agentcore.messages import Attachment
from agentcore.ports.blobs import Blobs
from agentcore.ports.tools import Outcome, ToolError

if TYPE_CHECKING:
    import mcp_types as types

MAX_FILE_BYTES = 5 * 1024 * 1024  # the contract's, of a picture
MAX_FILES = 4  # the contract's, of a call


@dataclass(slots=True)
class Content:
    """What is collected of one answer."""

    blobs: Blobs
    texts: list[str] = field(default_factory=list)
    files: list[Attachment] = field(default_factory=list)

    @property
    def text(self) -> str:
        return cap_output("\n".join(self.texts), HARD_LIMIT_BYTES)[0]

    async def add(self, block: Any) -> None:
        """Take one piece of an answer. Raises: StorageUnavailable."""
        match block.type:
            case "text":
                self.texts.append(safe_text(block.text))
            case "image":
                await self._file(block.data, block.mime_type, "picture")
            case "audio":
                self.texts.append(f"[audio ({_short(block.mime_type)}) is not shown]")
            case "resource_link":
                self.texts.append(f"[resource {_short(block.name)}: {_short(block.uri)}]")
            case "resource":
                await self.add_resource(block.resource)
            case _:
                self.texts.append("[something that cannot be shown]")

    async def add_resource(self, resource: Any) -> None:
        """Take the content of a resource. Raises: StorageUnavailable."""
        text, kind = getattr(resource, "text", None), resource.mime_type or ""
        if text is not None:
            self.texts.append(f"[{_short(resource.uri)}]\n{safe_text(text)}")
        elif kind.startswith("image/") or kind == PDF:
            await self._file(resource.blob, kind, f"file {_short(resource.uri)}")
        else:
            self.texts.append(f"[{_short(resource.uri)} ({_short(kind) or 'binary'}) is not shown]")

    async def _file(self, data: str, kind: str, what: str) -> None:
        try:
            if len(self.files) >= MAX_FILES:
                raise ToolError(f"more than {MAX_FILES} in one answer")
            if len(data) * 3 // 4 > MAX_FILE_BYTES + 2:
                raise ToolError(f"larger than {MAX_FILE_BYTES // 1024 // 1024} MiB")
            self.files.append(await keep(base64.b64decode(data, validate=True), self.blobs))
        except StorageUnavailable:
            raise
        except (ToolError, AgentError, binascii.Error, ValueError) as error:
            self.texts.append(f"[{what} ({_short(kind)}) is not shown: {_short(str(error))}]")


async def outcome_of(result: "types.CallToolResult", blobs: Blobs) -> Outcome:
    """The result of a call. Raises: ToolError for one that failed; StorageUnavailable."""
    content = Content(blobs)
    for block in result.content:
        await content.add(block)
    if not content.texts and not content.files and result.structured_content is not None:
        from pydantic_core import to_json

        content.texts.append(to_json(result.structured_content, indent=2).decode(errors="replace"))
    if result.is_error:
        raise ToolError(content.text or "The tool failed, and said nothing.")
    return Outcome(content.text or "(nothing)", attachments=tuple(content.files))


async def said_by(messages: "Sequence[types.PromptMessage]", blobs: Blobs) -> Content:
    """The messages of a prompt as one text, each with who says it where there are several.

    Raises: StorageUnavailable.
    """
    content = Content(blobs)
    for message in messages:
        if len(messages) > 1:
            content.texts.append(f"{message.role}:")
        await content.add(message.content)
    return content


def _short(text: object) -> str:
    return " ".join(safe_text(str(text)).split())[:200]
