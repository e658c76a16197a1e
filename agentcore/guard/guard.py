"""What is done with what a scanner finds: nothing, a placeholder in its place, or nothing gets through.

One guard belongs to one session; the scanner may be shared. Promise: what could not be looked at counts as a hit, and
neither a value nor the cause of a failure leaves this room, except to the operator's log.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from agentcore.events import Notice
from agentcore.guard.content import of_blocks
from agentcore.guard.placeholders import Placeholders
from agentcore.guard.scanning import UNSCANNED, Finding, Scanner
from agentcore.guard.windows import WINDOW_CHARS, scan_all
from agentcore.messages import Block, Document, Text
from agentcore.ports.tools import Outcome

log = logging.getLogger(__name__)

Mode = Literal["off", "redact", "reject"]

WITHHELD = "[Withheld: the guard for personal data and secrets does not let this text through.]"
WITHHELD_FILE = "[A file is withheld: the guard for personal data and secrets does not let it through.]"
_WINDOW_S = 10.0
"""How long a scanner may take for one window: twenty times the worst of the built-in one."""
_THREADS = 4  # more would only wait for each other: a scan computes

T = TypeVar("T")
Found: TypeAlias = tuple[tuple[Finding, ...], ...]
"""What is in each of several texts."""


@dataclass(frozen=True, slots=True)
class Clean(Generic[T]):
    """Nothing was found, or the guard is off."""

    value: T


@dataclass(frozen=True, slots=True)
class Redacted(Generic[T]):
    """The same with placeholders."""

    value: T
    kinds: tuple[str, ...]
    """What was found, sorted, each once."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Must not reach the model."""

    kinds: tuple[str, ...]


class Guard:
    """Of one session."""

    def __init__(
        self,
        mode: Mode,
        scanner: Scanner | None,
        announce: Callable[[Notice], object],
        *,
        text_of: Callable[[Document], Awaitable[str]] | None = None,
    ) -> None:
        """`scanner` is None only with mode off (`building.make_scanner`).

        `text_of` reads a document for the guard; without it, and when it raises, a document is withheld.
        """
        if (mode == "off") != (scanner is None):
            raise ValueError("a guard has a scanner exactly when it is on")
        self._mode = mode
        self._scanner = scanner
        self._announce = announce
        self._text_of = text_of
        self._placeholders = Placeholders()
        self._has_announced = False
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def is_on(self) -> bool:
        """While it is, nothing may be shown before it was checked: no output of a running call."""
        return self._scanner is not None

    def begin_run(self) -> None:
        """The next hit is announced again."""
        self._has_announced = False

    # --- what the user says ---

    async def check_prompt(self, text: str) -> Clean[str] | Redacted[str] | Rejected:
        found = await self._scan((text,))
        if not any(found):
            return Clean(text)
        kinds = self._tell(found)
        return Rejected(kinds) if self._mode == "reject" else Redacted(self._redacted(text, found[0]), kinds)

    async def check_blocks(
        self, blocks: tuple[Block, ...]
    ) -> Clean[tuple[Block, ...]] | Redacted[tuple[Block, ...]] | Rejected:
        """The blocks of a user's message. Pictures pass: nothing here can read them."""
        pieces = of_blocks(blocks)
        found = await self._scan(pieces.texts)
        unread = await self._documents_to_withhold(blocks)
        if not any(found) and not unread:
            return Clean(blocks)
        kinds = self._tell((*found, *unread.values()))
        if self._mode == "reject":
            return Rejected(kinds)
        checked = pieces.put(tuple(map(self._redacted, pieces.texts, found)))
        return Redacted(_without(checked, unread), kinds)

    # --- what tools, hooks and others say ---

    async def check_summary(self, text: str) -> str:
        """What a model says of what was checked before. Rewritten in either mode: withheld, it would be all that is
        left of the conversation."""
        found = await self._scan((text,))
        if any(found):
            self._tell(found)
        return self._redacted(text, found[0])

    async def check_output(self, text: str) -> str:
        """A tool's output, a hook's text, a note: as the model may get it."""
        return (await self.check_outputs((text,)))[0]

    async def check_shown(self, text: str) -> str:
        """As `check_output`, of what people alone are shown: nothing is announced."""
        found = await self._scan((text,))
        return self._let_through(text, found[0])

    async def check_outputs(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The same of several texts, each by itself."""
        found = await self._scan(texts)
        if not any(found):
            return tuple(texts)
        self._tell(found)
        return tuple(map(self._let_through, texts, found))

    async def check_outcome(self, outcome: Outcome) -> Outcome:
        """All of a tool's result that the model or people are shown."""
        shown = outcome.display or ""
        found = await self._scan((outcome.output, shown))
        unread = await self._documents_to_withhold(outcome.attachments)
        if not any(found) and not unread:
            return outcome
        self._tell((*found, *unread.values()))
        if self._mode == "reject":
            return replace(outcome, output=WITHHELD, display=None, attachments=())
        kept = tuple(one for at, one in enumerate(outcome.attachments) if at not in unread)
        output = "\n".join((self._redacted(outcome.output, found[0]), *[WITHHELD_FILE] * len(unread)))
        display = None if outcome.display is None else self._redacted(shown, found[1])
        return replace(outcome, output=output, display=display, attachments=kept)

    # --- doing it ---

    def _let_through(self, text: str, found: Sequence[Finding]) -> str:
        if not found:
            return text
        return WITHHELD if self._mode == "reject" else self._redacted(text, found)

    def _redacted(self, text: str, found: Sequence[Finding]) -> str:
        if any(one.kind == UNSCANNED for one in found):
            return WITHHELD
        return self._placeholders.redact(text, found)

    async def _documents_to_withhold(self, blocks: Iterable[Block]) -> dict[int, tuple[Finding, ...]]:
        """Places of the documents that hold something, or that nobody could read."""
        documents = {at: block for at, block in enumerate(blocks) if isinstance(block, Document)}
        if self._scanner is None or not documents:
            return {}
        texts = [await self._read(one) for one in documents.values()]
        found = await self._scan([text or "" for text in texts])
        return {
            at: _UNREAD if text is None else hits
            for at, text, hits in zip(documents, texts, found, strict=True)
            if text is None or hits
        }

    async def _read(self, document: Document) -> str | None:
        if self._text_of is None:
            return None
        try:
            return f"{document.name or ''}\n{await self._text_of(document)}"
        except Exception:
            log.exception("guard: a document cannot be read")
            return None

    async def _scan(self, texts: Sequence[str]) -> Found:
        scanner = self._scanner
        if scanner is None or not any(texts):
            return ((),) * len(texts)
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        windows = sum(1 + len(text) // WINDOW_CHARS for text in texts)
        try:
            with anyio.fail_after(_WINDOW_S * windows):
                # pure: a cancelled call may leave it behind
                scan = partial(_scan_texts, scanner, tuple(texts))
                return await anyio.to_thread.run_sync(scan, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError:
            log.error("guard: the scanner did not come to an end within %g s a window", _WINDOW_S)
            return tuple(_unscanned(text) for text in texts)

    def _tell(self, found: Iterable[Sequence[Finding]]) -> tuple[str, ...]:
        """Announce the first hit of a run; return the kinds."""
        counts = Counter(one.kind for hits in found for one in hits)
        kinds = tuple(sorted(counts))
        if not self._has_announced:
            self._has_announced = True
            listed = ", ".join(f"{kind} ({counts[kind]})" for kind in kinds)
            text = f"The guard kept from the model: {listed}. What else it finds in this run is not announced."
            self._announce(Notice(level="warning", code="guard_found", text=text))
        return kinds


_UNREAD = (Finding(0, 1, UNSCANNED),)


def _scan_texts(scanner: Scanner, texts: tuple[str, ...]) -> Found:
    return tuple(_scan_one(scanner, text) for text in texts)


def _scan_one(scanner: Scanner, text: str) -> tuple[Finding, ...]:
    try:
        return tuple(scan_all(scanner, text))
    except Exception:
        log.exception("guard: a text of %d characters could not be scanned", len(text))
        return _unscanned(text)


def _unscanned(text: str) -> tuple[Finding, ...]:
    return (Finding(0, len(text), UNSCANNED),) if text else ()


def _without(blocks: tuple[Block, ...], withheld: dict[int, tuple[Finding, ...]]) -> tuple[Block, ...]:
    """The blocks with a sentence in the place of each of these documents."""
    return tuple(Text(text=WITHHELD_FILE) if at in withheld else block for at, block in enumerate(blocks))
