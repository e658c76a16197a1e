"""Where a provider is, what it is called, and what lets us in.

Values made from the environment or from the user's settings, never from a repository. A key's text is in no `repr`.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from agentcore.errors import ProviderError

KEY_KEPT_S = 300.0  # a command that prints short-lived tokens is asked again this often
KEY_COMMAND_LIMIT_S = 30.0  # enough for a password manager that asks its owner
FAILURE_KEPT_S = 5.0  # who waited for a command that failed shares its failure; who has mended it need not wait long
_MAX_KEY_BYTES = 64 * 1024  # far above any token; what prints more prints something else
_POLL_S = 0.05
_KILLED_S = 1.0


class Key:
    """A secret: given as it is, or printed by the user's own command, whose output is kept for five minutes."""

    def __init__(
        self,
        value: str = "",
        *,
        source: str = "",
        command: str | None = None,
        is_needed: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._value = value.strip()
        self.source = source
        """What a person has to look at when the key is wrong: a variable's name, say."""
        self._command = command
        self._is_needed = is_needed
        self._clock = clock
        self._good_until: float | None = None
        """Of what the command printed; None when it has to be asked."""
        self._failure = ""
        """What came of the last attempt, until `_failed_until`; empty once it gave a key."""
        self._failed_until = 0.0
        self._reading = anyio.Lock()

    def why_not(self) -> str | None:
        """Say what is missing, as far as it can be told without running anything; None when nothing is."""
        if self._command is None and not self._value and self._is_needed:
            return f"it needs a key: set {self.source}"
        if not _can_be_key(self._value):
            return f"{self.source} holds characters that no key has: copy it again"
        return None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be repeated in a sentence."""
        return (self._value,) if self._value else ()

    async def read(self) -> str:
        """Return the key, empty where none is needed. Raises: ProviderError `auth` with what to mend."""
        if self._command is not None:
            async with self._reading:
                if self._good_until is None or self._clock() >= self._good_until:
                    await self._run(self._command)
        if (problem := self.why_not()) is not None:
            raise ProviderError("auth", f"The provider cannot be called: {problem}.")
        return self._value

    async def _run(self, command: str) -> None:
        """Have the command print the key. Raises: ProviderError `auth`, without another try just after a failure."""
        if self._failure and self._clock() < self._failed_until:
            raise ProviderError("auth", self._failure)
        try:
            # Left when cancelled: its own limit ends the command.
            self._value = await to_thread.run_sync(_printed_by, command, self.source, abandon_on_cancel=True)
        except ProviderError as error:
            self._failure, self._failed_until = str(error), self._clock() + FAILURE_KEPT_S
            raise
        self._failure, self._good_until = "", self._clock() + KEY_KEPT_S

    def forget(self) -> None:
        """The vendor refused the key: ask the command again next time. Until then it stays a secret."""
        self._good_until = None


def _can_be_key(text: str) -> bool:
    """It can stand in a header."""
    return text.isascii() and text.isprintable()


def _printed_by(command: str, source: str) -> str:
    """Run the user's command in a shell; return what it prints. What it says on stderr is its own matter.

    The shell's end is what counts: a child that it left behind may keep the pipe open for ever.
    """
    deadline = time.monotonic() + KEY_COMMAND_LIMIT_S
    process = subprocess.Popen(  # noqa: S602 - the user's own settings hold a shell line on purpose
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out = _read_until_end(process, deadline)
        status = process.wait(max(0.0, deadline - time.monotonic())) if len(out) <= _MAX_KEY_BYTES else None
    except subprocess.TimeoutExpired:
        raise ProviderError("auth", f"{source} did not end within {KEY_COMMAND_LIMIT_S:.0f} s.") from None
    finally:
        _end(process)
    key = out.decode(errors="replace").strip()
    if status is None or len(key.splitlines()) > 1:
        raise ProviderError("auth", f"{source} printed more than a key: it must print the key alone.")
    if status != 0 or not key:
        raise ProviderError("auth", f"{source} gave no key (exit status {status}). Run it in a terminal.")
    if not _can_be_key(key):
        raise ProviderError("auth", f"{source} printed characters that no key has. Run it in a terminal.")
    return key


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what still runs, without waiting for what cannot be ended: a command may have become another user."""
    assert process.stdout is not None
    process.stdout.close()
    if process.poll() is None:
        with suppress(PermissionError, ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)


def _read_until_end(process: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    """Read what the process prints, a little more than a key's limit at most. Raises: subprocess.TimeoutExpired."""
    assert process.stdout is not None
    out, pipe = bytearray(), process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(out) <= _MAX_KEY_BYTES:
            has_ended = process.poll() is not None  # asked before reading, so that nothing it printed is missed
            if selector.select(0 if has_ended else _POLL_S):
                piece = os.read(pipe, _MAX_KEY_BYTES)
                if not piece:
                    break
                out += piece
            elif has_ended:
                break
            elif time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(process.args, KEY_COMMAND_LIMIT_S)
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One provider as it was set up."""

    name: str
    """What model names begin with: `anthropic`, or `lab` for a named one."""
    title: str
    """What people are told: `Anthropic`, `provider lab`."""
    base_url: str
    key: Key = field(default_factory=lambda: Key(is_needed=False))
    url_source: str = ""
    """What a person has to look at when the address is wrong."""
    vendor: str = ""
    """Whose prices and windows apply; empty where none are known."""
    context_length: int | None = None
    """Tokens, where the user knows better than the catalogue."""
    is_vendors_own: bool = False
    """It is the built-in service of its name, at its own address or that of its variable: what else its vendor's SDK
    finds in the environment (custom headers, an organization) is meant for it."""
    problem: str = ""
    """A sentence that says why what was set up cannot be used; empty when nothing is known to be wrong."""

    @property
    def host(self) -> str:
        try:
            return urlsplit(self.base_url).hostname or ""
        except ValueError:
            return ""

    @property
    def is_local(self) -> bool:
        """It runs on this machine."""
        host = self.host.rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return mapped.is_loopback or mapped.is_unspecified  # 0.0.0.0, as in OLLAMA_HOST, leads here as well

    def mistake(self) -> str | None:
        """A sentence that says what was set up wrongly, a missing key apart; None when nothing was."""
        if self.problem:
            return self.problem
        if _is_usable(self.base_url):
            return None
        where = self.url_source or "its base URL"
        return f"{self.title} has no usable address: give {where} as http://… or https://…"

    def why_not(self) -> str | None:
        """A sentence that says what is missing before a call can be made; None when nothing is."""
        if (mistake := self.mistake()) is not None:
            return mistake
        problem = self.key.why_not()
        return None if problem is None else f"{self.title} is not ready: {problem}."


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, say
        return False
