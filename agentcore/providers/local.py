"""Model servers on this machine: which of them answer, and what models they have.

Asks over plain HTTP on loopback, all of them at once, each in a thread that may be left behind: a server that accepts
and says nothing costs the caller no more than the bound. What answers in another form is no model server.
"""

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

ANSWER_S = 0.25  # a server that runs lists its models in a few milliseconds
MAX_LIST_BYTES = 2 * 1024 * 1024
MAX_MODELS = 200
MAX_NAME_CHARS = 180
_EMBEDDERS = ("embed", "bge-", "minilm", "rerank", "whisper")
"""Parts of the names of models that do not chat, as Ollama and LM Studio list them beside the others."""
_EMBEDDING_FAMILY = "bert"  # Ollama's `bert`, `nomic-bert` and `xlm-roberta-bert`: none of them chats


@dataclass(frozen=True, slots=True)
class Target:
    """Where to ask."""

    url: str
    """`http://…`, of a host that is this machine."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of asking."""

    answers: bool
    """Something took the connection and spoke HTTP in time."""
    models: tuple[str, ...] | None = None
    """Those that can chat, in its own order; None: what answered is no model server."""


NOTHING = Seen(answers=False)


def look(targets: Sequence[Target], within_s: float = ANSWER_S) -> list[Seen]:
    """Ask every target at the same time; blocks for no longer than `within_s` and a little. Never raises."""
    questions = [_Question(target, within_s) for target in targets]
    deadline = time.monotonic() + within_s
    for question in questions:
        question.start()
    for question in questions:
        question.join(max(deadline - time.monotonic(), 0.0))
    seen = [question.seen for question in questions]
    for question in questions:
        question.hang_up()
    return seen


class _Question(threading.Thread):
    """One server, asked once."""

    def __init__(self, target: Target, within_s: float) -> None:
        super().__init__(name="looking for a model server", daemon=True)
        self.seen = NOTHING
        self._target = target
        self._within_s = within_s
        self._socket: socket.socket | None = None

    def run(self) -> None:
        parts = urlsplit(self._target.url)
        try:
            self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), self._within_s)
        except OSError:
            return  # nothing runs there: known before anything is loaded
        self.seen = self._asked(self._socket, parts.netloc, parts.path)

    def hang_up(self) -> None:
        """End a connection that goes on: its server sends a byte now and then, for ever."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _asked(self, opened: socket.socket, place: str, path: str) -> Seen:
        from http.client import HTTPConnection, HTTPException  # 10 ms: only where somebody answers

        key = self._target.key
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        connection = HTTPConnection(place, timeout=self._within_s)
        connection.sock = opened
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read(MAX_LIST_BYTES + 1)
        except OSError:
            return NOTHING
        except (HTTPException, ValueError):
            return Seen(answers=True)
        finally:
            connection.close()
        if response.status != 200 or len(body) > MAX_LIST_BYTES:
            return Seen(answers=True)
        return Seen(answers=True, models=_models(body))


def _models(body: bytes) -> tuple[str, ...] | None:
    """Read a list of models: `{"models": [{"name"}]}` of Ollama, `{"data": [{"id"}]}` of the others."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    for key, name in (("data", "id"), ("models", "name")):
        entries = document.get(key)
        if isinstance(entries, list) and all(_is_model(entry, name) for entry in entries):
            return tuple(entry[name] for entry in entries if _can_chat(entry, entry[name]))[:MAX_MODELS]
    return None


def _is_model(entry: object, name: str) -> bool:
    if not isinstance(entry, Mapping):
        return False
    value = entry.get(name)
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and value.isprintable()


def _can_chat(entry: Mapping[str, Any], name: str) -> bool:
    capabilities = entry.get("capabilities")
    if isinstance(capabilities, list) and ("completion" in capabilities or "embedding" in capabilities):
        return "completion" in capabilities  # Ollama's words
    details = entry.get("details")
    family = details.get("family") if isinstance(details, Mapping) else None
    is_embedding = isinstance(family, str) and _EMBEDDING_FAMILY in family.lower()
    return not is_embedding and not any(part in name.lower() for part in _EMBEDDERS)
