"""What a server was told about files: which are open, in which version, and what it said about each.

Each `didOpen` has its `didClose`: the file that was not asked about for the longest time is closed when there are too
many. A file's text is sent whole, and only when it differs from what the server has.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agentcore.lsp.answers import RawProblem, path_of, problems_in

MAX_OPEN = 32
"""Each is parsed and checked anew when something that it imports changes."""

Notify = Callable[[str, Any], None]
Look = tuple[int, int, int]
"""Inode, size and time of a file: another look means other content."""


@dataclass(slots=True)
class Document:
    path: Path
    text: str
    language_id: str
    version: int = 1
    problems: tuple[RawProblem, ...] = ()
    """What is wrong with it, as last heard."""
    heard: bool = False
    """Something was heard about this version."""
    look: Look | None = None
    """Of the file on disk when the text was taken."""
    news: anyio.Event = field(default_factory=anyio.Event)
    """Set, and made anew, each time something is heard."""
    known: Counter[tuple[str, str, str]] | None = None
    """The problems that were told before; None: none were."""
    result_id: str | None = None
    """Of the last full answer, when the server is asked for problems."""

    def hear(self, problems: tuple[RawProblem, ...]) -> None:
        self.problems = problems
        self.heard = True
        news, self.news = self.news, anyio.Event()
        news.set()

    def take_report(self, report: Any) -> None:
        """The answer to a question about its problems; `unchanged` since the last full one leaves them."""
        if not isinstance(report, Mapping):
            self.hear(())
            return
        self.result_id = report["resultId"] if isinstance(report.get("resultId"), str) else None
        self.hear(self.problems if report.get("kind") == "unchanged" else problems_in(report.get("items")))

    def news_of(self) -> tuple[list[RawProblem], list[RawProblem]]:
        """Its problems, those first that were not told the last time; from now on all count as told."""
        left = Counter(self.known or ())
        new: list[RawProblem] = []
        old: list[RawProblem] = []
        for problem in self.problems:
            (old if left[problem.key] > 0 else new).append(problem)
            left[problem.key] -= 1
        self.known = Counter(problem.key for problem in self.problems)
        return new, old


class Documents:
    def __init__(self, notify: Notify, max_open: int = MAX_OPEN) -> None:
        self._notify = notify
        self._max_open = max_open
        self._open: OrderedDict[Path, Document] = OrderedDict()

    @property
    def looks(self) -> dict[Path, Look | None]:
        """The open files as they were when they were last looked at; the one that was asked about last comes last."""
        return {path: document.look for path, document in self._open.items()}

    def show(self, path: Path, text: str, language_id: str, look: Look | None = None) -> Document:
        """Make the server see a file as it is now."""
        document = self._open.get(path) or self._opened(path, text, language_id)
        document.look = look
        self._open.move_to_end(path)
        self.update(path, text)
        return document

    def update(self, path: Path, text: str, look: Look | None = None) -> None:
        """Tell a new text of an open file."""
        document = self._open.get(path)
        if document is None:
            return
        document.look = look or document.look
        if document.text != text:
            document.text, document.heard = text, False
            document.version += 1
            identity = {"uri": path.as_uri(), "version": document.version}
            changes = [{"text": text}]
            self._notify("textDocument/didChange", {"textDocument": identity, "contentChanges": changes})

    def _opened(self, path: Path, text: str, language_id: str) -> Document:
        document = self._open[path] = Document(path, text, language_id)
        item = {"uri": path.as_uri(), "languageId": language_id, "version": document.version, "text": text}
        self._notify("textDocument/didOpen", {"textDocument": item})
        while len(self._open) > self._max_open:
            self.close(next(iter(self._open)))
        return document

    def close(self, path: Path) -> None:
        if self._open.pop(path, None) is not None:
            self._notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def close_all(self) -> None:
        for path in self.looks:
            self.close(path)

    def published(self, params: Any) -> None:
        """The server says what is wrong with a file; one that is not open, or was another text then, is left out."""
        if not isinstance(params, Mapping):
            return
        path = path_of(params.get("uri"))
        document = self._open.get(path) if path is not None else None
        version = params.get("version")
        if document is not None and (not isinstance(version, int) or version >= document.version):
            document.hear(problems_in(params.get("diagnostics")))

    def __contains__(self, path: Path) -> bool:
        return path in self._open
