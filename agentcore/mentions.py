"""`@path` in a prompt: the file, some lines of it, or the names in a folder, beside what the person typed.

Only what the tool `read` would be let at without a question is shown, and no link is followed once a path was judged.
What leads nowhere (an e-mail address, a decorator, `@server:uri`) is text, and so is everything in code.
"""

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio.to_thread

from agentcore.environment import command_environ
from agentcore.errors import AgentError, StorageUnavailable, Unprocessable
from agentcore.files import open_regular, opened_folder
from agentcore.instruction_files.code import code_spans, outside
from agentcore.media import MAX_FILE_BYTES, TEXT, check_size, keep, kind_of
from agentcore.messages import Document, Image, Text, ToolCall
from agentcore.permissions.decision import Outlook
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.unread import Unread
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.blobs import Blobs
from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import Tool, ToolError
from agentcore.tools.read import numbered_lines
from agentcore.tools.ripgrep import Found, Place, search
from agentcore.tools.texts import decode_start, safe_name
from agentcore.within import attribute, one_line, without_tags

MAX_MENTIONS = 20
MAX_LOOKED_UP = 200
"""Words with an @; most of a pasted log lead nowhere."""
MAX_TEXT_BYTES = 64 * 1024
"""Of one mention: the model reads on by itself."""
MAX_TOTAL_BYTES = 256 * 1024
"""Of text, all mentions of a prompt together."""
MAX_FOLDER_NAMES = 500
TAGS = ("file", "folder")

_MENTION = re.compile(r"(?<![^\s(\[{,;:\"'])@(?:\"([^\"\n]{1,1000})\"|([^\s\"'<>|`*@]{1,1000}))")
_RANGE = re.compile(r"#L([0-9]{1,9})(?:-L?([0-9]{1,9}))?\Z")
_RANGE_BEHIND = re.compile(r"#L[0-9]{1,9}(?:-L?[0-9]{1,9})?")
_SERVER = re.compile(r"([A-Za-z][\w.-]*):")
"""What a server of tools offers is mentioned by its name and a colon."""
_TRAILING = ".,;:!?)]}"

MentionBlock = Text | Image | Document


@dataclass(frozen=True, slots=True)
class Mention:
    path: str
    first: int | None = None
    """Line, from 1."""
    last: int | None = None
    server: str | None = None
    """Of tools: `path` is then what it calls the resource."""


@dataclass(slots=True)
class Mentioned:
    """What goes beside the typed text."""

    blocks: list[MentionBlock] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Why a file that is there is not shown, a sentence each."""
    left_bytes: int = MAX_TOTAL_BYTES


@dataclass(frozen=True, slots=True)
class _Bytes:
    data: bytes
    real: Path


class _NotShown(Exception):
    """There is something, and it is not shown; `str(error)` is the end of a sentence that begins with its name."""


class Mentions:
    """Of one session."""

    def __init__(
        self,
        workspace: Workspace,
        blobs: Blobs,
        environ: Mapping[str, str],
        may_read: Callable[[str], bool],
        servers: Servers = NO_SERVERS,
    ) -> None:
        """`may_read` says whether the rules let the tool `read` at a path without a question; it blocks."""
        self._workspace = workspace
        self._servers = servers
        self._blobs = blobs
        self._environ = command_environ(environ)
        self._may_read = may_read

    async def resolve(self, text: str) -> Mentioned:
        """Read what a prompt mentions. Raises: StorageUnavailable."""
        mentioned = Mentioned()
        shown = 0
        mentions = await anyio.to_thread.run_sync(_first_mentions, text, abandon_on_cancel=True)
        if len(mentions) > MAX_LOOKED_UP:
            mentioned.notices.append(f"Only the first {MAX_LOOKED_UP} words with an @ are looked up as files.")
        for mention in mentions[:MAX_LOOKED_UP]:
            if shown == MAX_MENTIONS:
                mentioned.notices.append(f"Only the first {MAX_MENTIONS} mentioned files are shown to the model.")
                break
            try:
                shown += await self._show(mention, mentioned)
            except _NotShown as error:
                name = mention.path if mention.server is None else f"{mention.server}:{mention.path}"
                mentioned.notices.append(f"@{one_line(name)} is not shown to the model: {error}.")
        return mentioned

    async def _show(self, mention: Mention, mentioned: Mentioned) -> bool:
        """Whether there was something. Raises: _NotShown, StorageUnavailable."""
        if mention.server is not None:
            return await self._show_resource(mention, mention.server, mentioned)
        found = await anyio.to_thread.run_sync(self._find, mention.path, abandon_on_cancel=True)
        if found is None:
            return False
        if isinstance(found, Place):
            text = await self._listed(mention.path, found)
            tag = "folder"
        elif kind_of(found.data) in (TEXT, None):
            text = await anyio.to_thread.run_sync(_lines, found.data, mention)
            tag = "file"
        else:
            mentioned.blocks += await self._attached(found)
            return True
        if len(text.encode()) > mentioned.left_bytes:
            raise _NotShown(f"the mentions of a prompt may be {MAX_TOTAL_BYTES // 1024} KiB of text together")
        mentioned.left_bytes -= len(text.encode())
        mentioned.blocks.append(Text(text=_framed(tag, mention, text)))
        return True

    async def _show_resource(self, mention: Mention, server: str, mentioned: Mentioned) -> bool:
        """The same for what a server of tools offers."""
        try:
            blocks = await self._servers.read(server, mention.path)
        except ToolError as error:
            raise _NotShown(str(error).rstrip(".")) from error
        size = sum(len(block.text.encode()) for block in blocks or () if isinstance(block, Text))
        if size > mentioned.left_bytes:
            raise _NotShown(f"the mentions of a prompt may be {MAX_TOTAL_BYTES // 1024} KiB of text together")
        mentioned.left_bytes -= size
        mentioned.blocks += blocks or ()
        return blocks is not None

    def _find(self, path: str) -> _Bytes | Place | None:
        """None for what is not there. Blocks. Raises: _NotShown."""
        try:
            real = self._workspace.resolve_readable(path)
        except (OutsideRoots, OSError, ValueError):
            if "/" not in path and not os.path.lexists(self._workspace.cwd / path):
                return None
            raise _NotShown("it is outside of the session's folders, or closed") from None
        if not os.path.lexists(real):
            return None
        if not self._may_read(path):
            raise _NotShown("a rule keeps it from the tool `read`")
        if real.is_dir():
            return Place(real, None, self._workspace.closed_below(real))
        try:
            with opened_folder(real.parent) as folder, open_regular(folder, real.name) as file:
                return _Bytes(file.read(MAX_FILE_BYTES + 1), real)  # one more: then it is refused as too large
        except ToolError:
            raise _NotShown("it is no regular file") from None
        except OSError as error:
            raise _NotShown(error.strerror or "it cannot be opened") from None

    async def _listed(self, path: str, place: Place) -> str:
        """Raises: _NotShown."""
        try:
            found = await search(place, self._environ, ("--files", "--sort=path"))
            found.demand_success()
        except ToolError as error:
            raise _NotShown(str(error)) from error
        names = await anyio.to_thread.run_sync(self._names, path, place, found, abandon_on_cancel=True)
        left = len(names) - MAX_FOLDER_NAMES
        more = [f"[{left} more: use glob to find what you need]"] if left > 0 else []
        return "\n".join([*names[:MAX_FOLDER_NAMES], *more]) or "(no files)"

    def _names(self, path: str, place: Place, found: Found) -> list[str]:
        """What may be read of what a folder holds."""
        unread = Unread(self._workspace, "read", path, place.folder)
        names = (os.fsdecode(name).removeprefix("./") for name in found.output.split(b"\0")[:-1])
        return [safe_name(name) for name in names if not unread.has(name)]

    async def _attached(self, found: _Bytes) -> list[MentionBlock]:
        """Raises: _NotShown, StorageUnavailable."""
        name = safe_name(self._workspace.shown(found.real))
        try:
            block = await keep(found.data, self._blobs, name)
        except StorageUnavailable:
            raise
        except (Unprocessable, AgentError) as error:
            raise _NotShown(str(error).rstrip(".")) from error
        return [Text(text=f"[Mentioned file: {attribute(name)}]"), block]


def may_read_by(gate: SessionGate, read: Tool) -> Callable[[str], bool]:
    """Whether the rules of a session let its tool `read` at a path without a question; blocks."""

    def may_read(path: str) -> bool:
        call = ToolCall(id="mention", name=read.spec.name, input={"file_path": path})
        return gate.judge(call, read.spec).outlook is Outlook.ALLOW

    return may_read


def find_mentions(text: str) -> Iterator[Mention]:
    """What may be one, each once, in order: whether it leads anywhere is seen when it is looked up."""
    spans = code_spans(text)
    seen: set[Mention] = set()
    for found in _MENTION.finditer(text):
        mention = _mention(found, text)
        if mention is not None and mention not in seen and outside(found.start(), spans):
            seen.add(mention)
            yield mention


def _first_mentions(text: str) -> list[Mention]:
    return list(islice(find_mentions(text), MAX_LOOKED_UP + 1))


def _mention(found: re.Match[str], text: str) -> Mention | None:
    if found[1] is not None:
        lines = _RANGE_BEHIND.match(text, found.end())
        path, said = found[1], lines[0] if lines else ""
    else:
        bare = found[2].rstrip(_TRAILING)
        if (server := _SERVER.match(bare)) is not None:
            uri = bare[server.end() :]
            return Mention(uri, server=server[1]) if uri else None
        lines = _RANGE.search(bare)
        path, said = (bare[: lines.start()], lines[0]) if lines else (bare, "")
    if not path:
        return None
    numbers = _RANGE.search(said)
    if numbers is None:
        return Mention(path)
    first = max(1, int(numbers[1]))
    return Mention(path, first, max(first, int(numbers[2] or first)))


def _lines(data: bytes, mention: Mention) -> str:
    """The lines of a file that are meant, numbered, as `read` gives them. Raises: _NotShown."""
    try:
        check_size(data)
        if kind_of(data) is None:
            raise _NotShown("it is a binary file")
        limit = None if mention.first is None or mention.last is None else mention.last - mention.first + 1
        text = numbered_lines(io.BytesIO(data), mention.first, limit)
    except (ToolError, Unprocessable) as error:
        raise _NotShown(str(error).rstrip(".")) from error
    raw = text.encode()
    if len(raw) <= MAX_TEXT_BYTES:
        return text
    kept = decode_start(raw[:MAX_TEXT_BYTES]).rpartition("\n")[0]
    return f"{kept}\n[cut here: read on with offset={kept.count(chr(10)) + 1 + (mention.first or 1)}]"


def _framed(tag: str, mention: Mention, text: str) -> str:
    lines = "" if mention.first is None else f' lines="{mention.first}-{mention.last}"'
    return f'<{tag} path="{attribute(mention.path)}"{lines}>\n{without_tags(text, TAGS)}\n</{tag}>'
