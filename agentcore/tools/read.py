"""The tool `read`: a text file, or the text of a PDF, as numbered lines within bounds; a picture as itself."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from agentcore.caps import HARD_LIMIT_BYTES, safe_text
from agentcore.errors import StorageUnavailable, Unprocessable
from agentcore.files import entries_of, open_regular, opened_folder, path_of_opened, take_snapshot
from agentcore.media import MAX_FILE_BYTES, PDF, TEXT, check_size, keep, kind_of
from agentcore.messages import Attachment, Image
from agentcore.permissions.unread import Unread, demand_undenied
from agentcore.permissions.workspace import Workspace
from agentcore.ports.blobs import Blobs
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.editor import BOM, SNIFFED_BYTES, is_binary
from agentcore.tools.inputs import Plain
from agentcore.tools.pdf import pdf_text
from agentcore.tools.texts import decode_start, safe_name
from agentcore.tools.threads import failures_told, read_in_thread
from agentcore.tools.versions import FileVersions
from agentcore.values import Value

MAX_LINES = 2000
MAX_BYTES = HARD_LIMIT_BYTES  # the promise of the API
MAX_LINE_BYTES = 2000
MAX_SIBLINGS = 2000
"""Names of a folder that are compared with a misspelt one."""
CHUNK_BYTES = 64 * 1024


class ReadInput(Value):
    file_path: Plain = Field(description="File to read: absolute, or relative to the working directory.")
    offset: int | None = Field(default=None, ge=1, description="Line to start at, from 1.")
    limit: int | None = Field(default=None, ge=1, description=f"Lines to read; {MAX_LINES} unless set.")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A picture or a PDF as it lies on disk."""

    data: bytes
    name: str


class ReadTool:
    spec = ToolSpec(
        name="read",
        description=(
            "Read a text file as numbered lines (number, tab, line). Long files come in parts: go on with offset. "
            "Of a PDF the text is read; a picture, or a PDF without text, is shown. A file must be read before it can "
            "be changed."
        ),
        input=ReadInput,
        read_only=True,
        parallel_safe=True,
        paths=("file_path",),
        output_limit_bytes=HARD_LIMIT_BYTES,  # it keeps within bounds by itself, in whole lines
    )

    def __init__(self, workspace: Workspace, versions: FileVersions, blobs: Blobs) -> None:
        self._workspace = workspace
        self._versions = versions
        self._blobs = blobs

    async def run(self, input: ReadInput, room: ToolRoom) -> Outcome:
        found = await read_in_thread(self._read, input)
        if isinstance(found, str):
            return Outcome(found)
        if kind_of(found.data) == PDF and (text := await _text_of(found, input)):
            return Outcome(text)
        return await self._shown(found, input)

    def preview(self, input: ReadInput) -> None:
        return None

    async def _shown(self, found: _Shown, input: ReadInput) -> Outcome:
        try:
            attachment = await keep(found.data, self._blobs, found.name)
        except (Unprocessable, StorageUnavailable) as error:
            raise ToolError(f"{input.file_path} cannot be shown. {error}") from error
        return Outcome(_line_about(attachment, input.file_path), attachments=(attachment,))

    def _read(self, input: ReadInput) -> str | _Shown:
        with failures_told(input.file_path):
            real = self._workspace.resolve_readable(input.file_path)
            try:
                with opened_folder(real.parent) as folder, open_regular(folder, real.name or ".") as file:
                    there = path_of_opened(folder, real.parent) / real.name
                    demand_undenied(self._workspace, self.spec.name, input.file_path, there)
                    return self._contents(file, real, input)
            except FileNotFoundError as error:
                raise ToolError(f"{input.file_path} does not exist.{self._similar(real)}") from error

    def _contents(self, file: BinaryIO, real: Path, input: ReadInput) -> str | _Shown:
        snapshot = take_snapshot(file)
        file.seek(0)
        start = snapshot.data or file.read(SNIFFED_BYTES)
        if kind_of(start) not in (TEXT, None):
            file.seek(0)
            data = snapshot.data or file.read(MAX_FILE_BYTES + 1)  # one more: then it is refused as too large
            return _Shown(data, safe_name(real.name))
        if is_binary(start):
            size_bytes = snapshot.status.st_size
            raise ToolError(f"{input.file_path} is a binary file ({size_bytes} bytes): it cannot be shown")
        file.seek(0)
        text = numbered_lines(file if snapshot.data is None else io.BytesIO(snapshot.data), input.offset, input.limit)
        self._versions.remember(real, snapshot.version)
        return text

    def _similar(self, real: Path) -> str:
        """Names in the same folder that look like the missing one."""
        closed = set(map(str, self._workspace.closed_below(real.parent)))
        try:
            with opened_folder(real.parent) as folder, entries_of(folder) as entries:
                names = {entry.name for entry in islice(entries, MAX_SIBLINGS)} - closed
        except OSError:
            return ""
        unread = Unread(self._workspace, self.spec.name, str(real.parent), real.parent)
        near = get_close_matches(real.name, sorted(name for name in names if not unread.has(name)), n=3)
        return f" Close names in its folder: {', '.join(map(safe_name, near))}." if near else ""


async def _text_of(found: _Shown, input: ReadInput) -> str:
    """The asked lines of a PDF's text; empty where it has none: then its pages are pictures."""
    try:
        check_size(found.data)
        text = await pdf_text(found.data)
    except (ToolError, Unprocessable) as error:
        raise ToolError(f"{input.file_path} cannot be read: {error}") from error
    return numbered_lines(io.BytesIO(text.encode()), input.offset, input.limit) if text else ""


def _line_about(attachment: Attachment, path: str) -> str:
    size = f"{attachment.size_bytes:,} bytes"
    if isinstance(attachment, Image):
        size = f"{attachment.width} x {attachment.height} pixels, {size}"
    return f"{path} is shown with this result: {attachment.media_type}, {size}"


def numbered_lines(file: BinaryIO, offset: int | None, limit: int | None) -> str:
    """Format up to `limit` lines from line `offset` on. Raises: ToolError when the file is shorter than that."""
    first, most = offset or 1, limit or MAX_LINES
    lines = cut_lines(file)
    skipped = sum(1 for _ in islice(lines, first - 1))
    shown: list[str] = []
    size_bytes = 0
    for number, line in enumerate(lines, start=first):
        text = f"{number:>6}\t{line}"
        size_bytes += len(text.encode()) + 1
        if len(shown) == most or size_bytes > MAX_BYTES:
            return "\n".join([*shown, f"[cut before line {number}: read on with offset={number}]"])
        shown.append(text)
    if shown:
        return "\n".join(shown)
    if first == 1:
        return "(the file is empty)"
    raise ToolError(f"offset {first} is past the end: the file has {skipped} lines")


def cut_lines(file: BinaryIO) -> Iterator[str]:
    """The lines of a file without their ends; what is longer than `MAX_LINE_BYTES` is cut, visibly."""
    is_first = True
    while line := file.readline(MAX_LINE_BYTES):
        left_out = 0 if line.endswith(b"\n") else _skip_line(file)
        text = safe_text(decode_start(line) if left_out else line.decode(errors="replace")).rstrip("\r\n")
        if is_first:
            text, is_first = text.removeprefix(BOM), False
        yield f"{text} [… {left_out} more bytes of this line]" if left_out else text


def _skip_line(file: BinaryIO) -> int:
    """Read over the rest of a line; return its length in bytes without the line end."""
    length = 0
    while part := file.readline(CHUNK_BYTES):
        length += len(part)
        if part.endswith(b"\n"):
            return length - 1
    return length
