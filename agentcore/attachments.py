"""What goes with a prompt, and what is uploaded: from bytes, a path or a name to a block that the model can be shown.

Assembly of the ways in (`media`, the workspace, the session's blobs). Everything here is done, and durable, before
a prompt is accepted: a bad attachment leaves no trace of one. Promise: bytes go into the store, references come out.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeAlias

import anyio.to_thread

from agentcore.caps import HARD_LIMIT_BYTES, cap_output
from agentcore.errors import BadRequest, Unprocessable
from agentcore.files import open_regular, opened_folder
from agentcore.media import MAX_FILE_BYTES, TEXT, check_declared, check_size, keep, kind_of
from agentcore.messages import Document, Image, Text
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.blobs import Blobs
from agentcore.ports.tools import ToolError
from agentcore.tools.texts import safe_name
from agentcore.values import Value

MAX_PROMPT_BYTES = 22_000_000
"""Of all images and documents of a prompt: as base64 they leave room for the rest in a vendor's request of 32 MB."""

ATTACHED = "[Attached file: "
"""How the text of an attached file begins."""

PromptBlock: TypeAlias = Text | Image | Document


class StoredBlob(Value):
    """Bytes that were kept; `blob` is what an attachment or a `GET …/blobs/{blob}` names."""

    blob: str
    media_type: str
    """What is kept, which for a picture may be another than what was sent."""
    size: int
    """In bytes, of what is kept."""


class Attachments:
    """The way in for files of one session."""

    def __init__(self, blobs: Blobs, workspace: Workspace, may_read: Callable[[str], bool]) -> None:
        """`may_read` says whether the rules let the tool `read` at a path without a question; it blocks."""
        self._blobs = blobs
        self._workspace = workspace
        self._may_read = may_read

    async def store(self, data: bytes, media_type: str) -> StoredBlob:
        """Keep an upload. Raises: Unprocessable for what the model could not be shown; StorageUnavailable."""
        check_declared(data, media_type)
        if kind_of(data) == TEXT:
            blob = await anyio.to_thread.run_sync(self._blobs.put, data)
            return StoredBlob(blob=blob, media_type=TEXT, size=len(data))
        kept = await keep(data, self._blobs)
        return StoredBlob(blob=kept.blob, media_type=kept.media_type, size=kept.size_bytes)

    async def of_blob(self, blob: str) -> PromptBlock:
        """What was uploaded before. Raises: Unprocessable, StorageUnavailable."""
        try:
            data = await anyio.to_thread.run_sync(self._blobs.get, blob)
        except KeyError as error:
            raise Unprocessable(f"This session has no blob {blob}: upload it first.") from error
        return await self._block(data, None)

    async def of_data(self, media_type: str, data: str) -> PromptBlock:
        """Bytes as base64. Raises: BadRequest, Unprocessable, StorageUnavailable."""
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadRequest("Its `data` is not base64.") from error
        check_declared(raw, media_type)
        return await self._block(raw, None)

    async def of_path(self, path: str) -> PromptBlock:
        """A file that the tool `read` would be let at. Raises: Unprocessable, StorageUnavailable."""
        data, name = await anyio.to_thread.run_sync(self._read, path, abandon_on_cancel=True)
        return await self._block(data, name)

    def _read(self, path: str) -> tuple[bytes, str]:
        """The bytes of a file and its name for the model; no link is followed once the path was judged."""
        try:
            real = self._workspace.resolve_readable(path)
            if not self._may_read(path):
                raise Unprocessable(f"{path} is not open to this session: a rule keeps it from the tool `read`.")
            with opened_folder(real.parent) as folder, open_regular(folder, real.name or ".") as file:
                data = file.read(MAX_FILE_BYTES + 1)  # one more: then it is refused as too large
        except OutsideRoots as error:
            # the error's own words name the work folder, which the client may not have sent
            raise Unprocessable(f"{path} is not open to this session: outside its folders, or closed.") from error
        except ToolError as error:
            raise Unprocessable(str(error)) from error
        except OSError as error:
            raise Unprocessable(f"{path} cannot be read: {error.strerror or 'it cannot be opened'}.") from error
        return data, safe_name(self._workspace.shown(real))

    async def _block(self, data: bytes, name: str | None) -> PromptBlock:
        check_size(data)
        if not data:
            raise Unprocessable("It is empty.")
        if kind_of(data) == TEXT:
            return await anyio.to_thread.run_sync(_text_of, data, name)
        return await keep(data, self._blobs, name)


def _text_of(data: bytes, name: str | None) -> Text:
    """A text file for the model: its name, and as much of it as one result of a tool may be."""
    text, _ = cap_output(data.decode(errors="replace"), HARD_LIMIT_BYTES)
    return Text(text=f"{ATTACHED}{name or 'without a name'}]\n{text}")


def check_total(blocks: Iterable[PromptBlock]) -> None:
    """Raises: Unprocessable when they are more than a vendor takes in one request."""
    total = sum(block.size_bytes for block in blocks if not isinstance(block, Text))
    if total > MAX_PROMPT_BYTES:
        raise Unprocessable(f"The attachments are {total:,} bytes together; {MAX_PROMPT_BYTES:,} is the most.")
