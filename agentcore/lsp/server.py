"""One running language server: its start, what it is told and asked, what it asks back, its end.

Everything that changes state is a plain function on the event loop, so that ten sessions can use one server without
a lock: what is told goes out before what is asked, in the order of the calls.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from agentcore.languages import CodeFile, LanguageSetup
from agentcore.lsp.documents import Document, Documents
from agentcore.lsp.framing import BadFrame, FrameReader
from agentcore.lsp.known import section_of
from agentcore.lsp.pipes import ServerProcess
from agentcore.lsp.positions import UNIT_SIZES
from agentcore.lsp.reading import MAX_FILE_CHARS, read_files
from agentcore.lsp.registrations import Capabilities
from agentcore.lsp.rpc import CONTENT_MODIFIED, SERVER_CANCELLED, Connection, Gone, NoAnswer, RpcError, Unknown
from agentcore.lsp.silence import Silence
from agentcore.lsp.words import client_capabilities
from agentcore.ports.tools import ToolError

log = logging.getLogger(__name__)

START_S = 30.0
"""To answer `initialize`: pyright took 4 to 6 s on a loaded machine until its first diagnostics."""
REQUEST_S = 30.0
STOP_S = 2.0
"""For `shutdown`, before the server is killed."""
TRIES = 3
"""Of a request that the server gave up because a file changed meanwhile."""
AGAIN_S = 0.2
SETTLE_S = 0.2
"""Without news, before pushed diagnostics are taken for whole: some servers push syntax first, types later."""
MAX_SILENT = 3
"""Requests without an answer, with nothing heard between them, after which the server is taken for stuck."""
MAX_PROGRESS = 100


class StartFailed(Exception):
    """`str(error)` ends a sentence about the server."""


class LanguageServer:
    def __init__(
        self,
        setup: LanguageSetup,
        root: Path,
        process: ServerProcess,
        settings: Mapping[str, Any],
        silence: Silence,
    ) -> None:
        """`silence` ends with each word of the server."""
        self.setup = setup
        self.root = root
        self.capabilities = Capabilities()
        self._process = process
        self._settings = settings
        self._connection = Connection(self._send, self._answer, self._hear)
        self.documents = Documents(self._connection.notify)
        self._progress: set[str] = set()
        self._news = anyio.Event()
        self._broken = anyio.Event()
        self._reason = ""
        self._silent = 0
        self._silence = silence
        self._was_heard = False

    # --- life ---

    async def exchange(self) -> None:
        """Carry messages until the server ends or breaks the protocol; then everybody who waits is told why."""
        frames = FrameReader()

        def take(chunk: bytes) -> None:
            self._silent = 0
            self._silence.end()
            for body in frames.feed(chunk):
                self._connection.take(body)

        async def watch(scope: anyio.CancelScope) -> None:
            await self._broken.wait()
            scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch, group.cancel_scope)
                try:
                    await self._process.exchange(take)
                except* BadFrame as errors:
                    self._break(str(errors.exceptions[0]))
                group.cancel_scope.cancel()
        finally:
            self._break("it ended")
            self._connection.close(self._reason)

    @property
    def reason(self) -> str:
        """Why it ended, as the end of a sentence about it."""
        return self._reason

    @property
    def is_broken(self) -> bool:
        """It has ended, or is about to be ended."""
        return self._broken.is_set()

    async def start(self, options: Mapping[str, Any]) -> None:
        """Raises: StartFailed."""
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "agentcore"},
            "rootPath": str(self.root),
            "rootUri": self.root.as_uri(),
            "workspaceFolders": [{"uri": self.root.as_uri(), "name": self.root.name}],
            "capabilities": client_capabilities(),
            "initializationOptions": dict(options),
        }
        try:
            answer = await self._connection.request("initialize", params, START_S)
        except NoAnswer:
            raise StartFailed(f"it did not start within {START_S:.0f} s") from None
        except RpcError as error:
            log.warning("%s refused to start: %s", self.setup.server, error)
            raise StartFailed("it refused to start") from None
        except Gone as error:
            raise StartFailed(str(error)) from None
        if not isinstance(answer, Mapping):
            raise StartFailed("it answered its start with something that makes no sense")
        self.capabilities.start(answer.get("capabilities"))
        if self.capabilities.encoding not in UNIT_SIZES:
            raise StartFailed("it counts positions in a way that was not offered to it")
        self._connection.notify("initialized", {})
        if self._settings:
            self._connection.notify("workspace/didChangeConfiguration", {"settings": dict(self._settings)})

    async def stop(self) -> None:
        """Ask it to end, and wait for that a little; whoever made it kills what is left."""
        with anyio.move_on_after(STOP_S):
            self.documents.close_all()
            try:
                await self._connection.request("shutdown", None, STOP_S)
            except (RpcError, NoAnswer, Gone):
                return
            self._connection.notify("exit")
            await self._broken.wait()

    def _break(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._broken.set()
        self._wake()

    def _send(self, data: bytes) -> None:
        try:
            self._process.send(data)
        except BadFrame as error:
            self._break(str(error))

    # --- what the server says ---

    def _answer(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, Mapping) else None
                known = items if isinstance(items, list) else []
                return [section_of(self._settings, _section(item)) for item in known]
            case "client/registerCapability":
                self.capabilities.register(params)
                self._wake()
            case "client/unregisterCapability":
                self.capabilities.unregister(params)
            case "workspace/applyEdit":
                # A server may only propose: what changes files goes through the gate and the editor.
                return {"applied": False, "failureReason": "edits are made by the agent's own tools"}
            case "workspace/workspaceFolders":
                return [{"uri": self.root.as_uri(), "name": self.root.name}]
            case "window/showDocument":
                return {"success": False}
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                return None
            case _ if method.endswith("/refresh"):
                return None
            case _:
                raise Unknown
        return None

    def _hear(self, method: str, params: Any) -> None:
        match method:
            case "textDocument/publishDiagnostics":
                self.documents.published(params)
                self._wake()
            case "$/progress":
                self._hear_progress(params)
            case "window/showMessage" | "window/logMessage":
                log.debug("%s says: %.300s", self.setup.server, params)
            case _:
                pass

    def _hear_progress(self, params: Any) -> None:
        value = params.get("value") if isinstance(params, Mapping) else None
        kind = value.get("kind") if isinstance(value, Mapping) else None
        token = str(params.get("token")) if kind is not None else ""
        if kind == "begin" and len(self._progress) < MAX_PROGRESS:
            self._progress.add(token)
        elif kind == "end":
            self._progress.discard(token)

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    @property
    def is_loading(self) -> bool:
        """It has not looked at any file yet, or says that it is at work."""
        return not self._was_heard or bool(self._progress)

    # --- files ---

    async def show(self, file: CodeFile) -> Document:
        """Make the server see a file, and all that it has open, as they are on disk. Raises: ToolError."""
        text, look, changed = await to_thread.run_sync(read_files, file, self.documents.looks, abandon_on_cancel=True)
        for path, new, seen in changed:
            if new is None:
                self.documents.close(path)
            else:
                self.documents.update(path, new, seen)
        if text is None:
            raise ToolError(f"{file.real.name} cannot be read as text of at most {MAX_FILE_CHARS} characters")
        return self.documents.show(file.real, text, self.setup.suffixes[file.real.suffix], look)

    def saved(self, path: Path) -> None:
        """Say that a file was changed on disk."""
        change = {"uri": path.as_uri(), "type": 2}
        self._connection.notify("workspace/didChangeWatchedFiles", {"changes": [change]})
        if self.capabilities.is_told_of_saving and path in self.documents:
            self._connection.notify("textDocument/didSave", {"textDocument": {"uri": path.as_uri()}})

    # --- questions ---

    async def ask(self, method: str, params: Any, *, capability: str | None = None) -> Any:
        """Ask, again where the server gave up because a file changed. Raises: ToolError."""
        name = self.setup.server
        if not self.capabilities.has(capability or method):
            raise ToolError(f"{name} does not offer this; search with grep instead")
        try:
            return await self._asked(method, params)
        except RpcError as error:
            raise ToolError(f"{name} could not answer: {error}") from None
        except NoAnswer:
            self._note_silence()
            raise ToolError(f"{name} did not answer within {REQUEST_S:.0f} s: try again, or search with grep") from None
        except Gone as error:
            raise ToolError(f"{name} is being started anew ({error}): try again in a moment") from None

    async def _asked(self, method: str, params: Any) -> Any:
        for _ in range(TRIES - 1):
            try:
                return await self._connection.request(method, params, REQUEST_S)
            except RpcError as error:
                if error.code not in (CONTENT_MODIFIED, SERVER_CANCELLED):
                    raise
            await anyio.sleep(AGAIN_S)
        return await self._connection.request(method, params, REQUEST_S)

    def _note_silence(self) -> None:
        self._silent += 1
        if self._silent >= MAX_SILENT:
            self._break("it was stuck")

    async def check(self, file: CodeFile) -> Document:
        """Wait until it is known what is wrong with a file as it is now. Raises: ToolError."""
        document = await self.show(file)
        pull = "textDocument/diagnostic"
        while not document.heard and not self.capabilities.has(pull):
            if self._broken.is_set():
                raise ToolError(f"{self.setup.server} is being started anew: try again in a moment")
            await self._news.wait()  # a diagnostic of any file, or a registration
        if self.capabilities.has(pull):
            await self._pull(document)
        else:
            await _settled(document)
        self._was_heard = True
        return document

    async def _pull(self, document: Document) -> None:
        params: dict[str, Any] = {"textDocument": {"uri": document.path.as_uri()}}
        options = self.capabilities.options("textDocument/diagnostic")
        if isinstance(options, Mapping) and isinstance(options.get("identifier"), str):
            params["identifier"] = options["identifier"]
        if document.result_id is not None:
            params["previousResultId"] = document.result_id
        document.take_report(await self.ask("textDocument/diagnostic", params))


async def _settled(document: Document) -> None:
    """Wait until nothing new is said about a file for a moment."""
    is_quiet = False
    while not is_quiet:
        with anyio.move_on_after(SETTLE_S) as limit:
            await document.news.wait()
        is_quiet = limit.cancelled_caught


def _section(item: object) -> object:
    return item.get("section") if isinstance(item, Mapping) else None
