"""Model servers on this machine are found by what they answer, and cost nothing where there are none."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from agentcore.providers.local import ANSWER_S, MAX_LIST_BYTES, Seen, Target, look
from agentcore.providers.registry import Providers
from agentcore.settings.providers import ModelNames, NamedProvider, ProviderSection

Answer = Callable[[socket.socket], None]


class LocalServer:
    """A loopback server that answers every connection in one way."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                self.requests.append(connection.recv(65536))
                try:
                    self._answer(connection)
                except OSError:
                    continue


@contextmanager
def serving(answer: Answer) -> Iterator[LocalServer]:
    server = LocalServer(answer)
    try:
        yield server
    finally:
        server.close()


def sends(body: bytes, status: str = "200 OK", media_type: str = "application/json") -> Answer:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return lambda connection: connection.sendall(head.encode() + body)


def lists(*names: str) -> Answer:
    return sends(json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode())


def tags(*models: dict[str, Any]) -> Answer:
    return sends(json.dumps({"models": list(models)}).encode())


def until_it_hangs_up(connection: socket.socket) -> None:
    assert connection.recv(1) == b""


def trickles(connection: socket.socket) -> None:
    """Send a byte of a header now and then, for as long as somebody listens."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.01)  # a server's pace, bounded by the client that hangs up


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


NO_MODEL_SERVER = Seen(answers=True, models=None)
ANSWERS: dict[str, tuple[Answer, Seen]] = {
    "a list": (lists("qwen3", "openai/gpt-oss-20b"), Seen(True, ("qwen3", "openai/gpt-oss-20b"))),
    "an empty list": (lists(), Seen(True, ())),
    "embedding models beside others": (
        lists("text-embedding-nomic-embed-text-v1.5", "bge-m3", "qwen3"),
        Seen(True, ("qwen3",)),
    ),
    "Ollama's list": (
        tags(
            {"name": "all-minilm:latest", "details": {"family": "bert"}},
            {"name": "searcher:latest", "details": {"family": "nomic-bert"}},
            {"name": "eyes:latest", "details": {"family": "llama"}, "capabilities": ["embedding"]},
            {"name": "qwen3:8b", "details": {"family": "qwen3"}, "capabilities": ["completion", "tools"]},
            {"name": "old:latest", "details": None},
        ),
        Seen(True, ("qwen3:8b", "old:latest")),
    ),
    "both lists": (
        sends(b'{"models":[{"name":"a"}],"data":[{"id":"b","meta":{"n_ctx_train":1}}]}'),
        Seen(True, ("b",)),
    ),
    "HTML": (sends(b"<!doctype html><p>It works!", media_type="text/html"), NO_MODEL_SERVER),
    "other JSON": (sends(b'{"status":"ok"}'), NO_MODEL_SERVER),
    "a list of something else": (sends(b'{"data":[{"id":7}]}'), NO_MODEL_SERVER),
    "JSON that is no object": (sends(b"[1]"), NO_MODEL_SERVER),
    "a name with control characters": (lists("a\x1b[31m"), NO_MODEL_SERVER),
    "deep JSON": (sends(b"[" * 200_000), NO_MODEL_SERVER),
    "404": (sends(b'{"data":[{"id":"a"}]}', "404 Not Found"), NO_MODEL_SERVER),
    "a redirect": (sends(b"", "302 Found"), NO_MODEL_SERVER),
    "no HTTP": (lambda connection: connection.sendall(b"SSH-2.0-x\r\n"), NO_MODEL_SERVER),
    "a cut body": (
        lambda connection: connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"data"'),
        NO_MODEL_SERVER,
    ),
    "a body without end": (sends(b"x" * (MAX_LIST_BYTES + 9)), NO_MODEL_SERVER),
    "nothing": (lambda connection: None, Seen(False)),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "seen"), ANSWERS.values(), ids=ANSWERS.keys())
def test_what_answers_is_judged_by_its_form(answer: Answer, seen: Seen) -> None:
    with serving(answer) as server:
        assert look([Target(f"http://127.0.0.1:{server.port}/v1/models")], within_s=5.0) == [seen]
    assert server.requests[0].startswith(b"GET /v1/models HTTP/1.1\r\n")


def test_all_are_asked_at_once_and_a_silent_one_delays_the_rest_by_no_more_than_the_bound() -> None:
    began = time.monotonic()
    with ExitStack() as stack:
        slow = [stack.enter_context(serving(until_it_hangs_up)) for _ in range(5)]
        slow += [stack.enter_context(serving(trickles)) for _ in range(5)]
        quick = stack.enter_context(serving(lists("qwen3")))
        targets = [Target(f"http://127.0.0.1:{server.port}/") for server in (*slow, quick)]
        *silent, found = look(targets)
        took = time.monotonic() - began
    assert silent == [Seen(False)] * 10
    assert found == Seen(True, ("qwen3",))
    assert took < ANSWER_S * 4  # one after the other they would take ten times the bound


def test_a_refused_connection_is_no_answer() -> None:
    assert look([Target(f"http://127.0.0.1:{free_port()}/")]) == [Seen(False)]
    assert look([]) == []


def test_a_key_goes_to_the_server_that_it_is_for() -> None:
    with serving(lists("a")) as server:
        environ = {**nowhere(), "LM_STUDIO_API_BASE": f"http://127.0.0.1:{server.port}", "LM_API_TOKEN": "lm-token"}
        providers = Providers({**environ, "ANTHROPIC_API_KEY": "sk-ant-key"})
        providers.look()
    assert b"\r\nAuthorization: Bearer lm-token\r\n" in server.requests[0]
    assert b"sk-ant-key" not in server.requests[0]


# --- what the registry makes of it ---


def nowhere() -> dict[str, str]:
    """An environment in which no local server is where it would usually be."""
    port = free_port()
    return {
        "OLLAMA_HOST": f"127.0.0.1:{port}",
        "LM_STUDIO_API_BASE": f"http://127.0.0.1:{port}/v1",
        "LLAMA_BASE_URL": f"http://127.0.0.1:{port}/v1",
    }


FOUND = [
    ("OLLAMA_HOST", tags({"name": "qwen3:8b"}, {"name": "b"}), b"GET /api/tags ", "ollama/qwen3:8b"),
    ("LM_STUDIO_API_BASE", lists("openai/gpt-oss-20b"), b"GET /v1/models ", "lmstudio/openai/gpt-oss-20b"),
    ("LLAMA_BASE_URL", lists("m.gguf"), b"GET /v1/models ", "llamacpp/m.gguf"),
]


@pytest.mark.parametrize(("variable", "answer", "request_line", "model"), FOUND)
def test_without_a_key_the_first_server_that_answers_is_the_default(
    variable: str, answer: Answer, request_line: bytes, model: str
) -> None:
    with serving(answer) as server:
        providers = Providers({**nowhere(), variable: f"http://127.0.0.1:{server.port}"})
        assert providers.default_model() == "scripted/demo"
        assert providers.choose() == model
        assert providers.default_model() == model
    assert [request[: len(request_line)] for request in server.requests] == [request_line]
    assert providers.parse(model)[0] in [one.name for one in providers.describe() if one.ready]


def test_with_a_key_nobody_is_asked() -> None:
    with serving(lists("a")) as server:
        environ = {**nowhere(), "LLAMA_BASE_URL": f"http://127.0.0.1:{server.port}", "GEMINI_API_KEY": "k"}
        assert Providers(environ).choose().startswith("gemini/")
    assert server.requests == []


def test_another_machine_is_never_asked() -> None:
    environ = {**nowhere(), "OLLAMA_HOST": "192.0.2.1"}
    providers = Providers(environ)
    providers.look()
    ollama = next(one for one in providers.describe() if one.name == "ollama")
    assert (ollama.ready, ollama.models) == (True, ())
    assert providers.default_model() == "scripted/demo"


def test_readiness_is_what_was_last_seen() -> None:
    with serving(lists("a", "b")) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        providers = Providers({**nowhere(), "LLAMA_BASE_URL": url})
        before = providers.status("llamacpp")
        providers.look()
        found = providers.status("llamacpp")
    providers.look()
    gone = providers.status("llamacpp")
    assert (before.ready, found.ready, found.models, gone.ready) == (False, True, ("a", "b"), False)
    assert "LLAMA_BASE_URL" in str(gone.why_not)


LISTED = [
    ("b", None),
    ("qwen3", None),
    ("lost", "Ollama lists no model lost that can chat; it has qwen3:latest, b, c1, c2, c3, …."),
    (
        "nomic-embed-text",
        "Ollama lists no model nomic-embed-text that can chat; it has qwen3:latest, b, c1, c2, c3, ….",
    ),
]


@pytest.mark.parametrize(("model", "doubt"), LISTED)
def test_a_model_that_its_server_does_not_list_is_doubted(model: str, doubt: str | None) -> None:
    names = ("qwen3:latest", "nomic-embed-text", "b", "c1", "c2", "c3", "c4")
    with serving(tags(*({"name": name} for name in names))) as server:
        providers = Providers({**nowhere(), "OLLAMA_HOST": f"127.0.0.1:{server.port}"})
        assert "not asked yet" in str(providers.doubt(f"ollama/{model}"))
        providers.look()
    assert providers.doubt(f"ollama/{model}") == doubt
    assert providers.doubt("scripted/any") is None
    assert "does not answer" in str(providers.doubt("llamacpp/any"))


def test_a_named_server_that_lists_nothing_is_believed() -> None:
    section = ProviderSection(type="openai-compatible", base_url="http://127.0.0.1:1/v1")
    with serving(ANSWERS["HTML"][0]) as server:
        section = section.model_copy(update={"base_url": f"http://127.0.0.1:{server.port}/v1"})
        providers = Providers(nowhere(), ModelNames(providers=(NamedProvider("lab", section),)))
        providers.choose()
    assert providers.doubt("lab/any") is None
    assert [told for told in providers.passed_over() if told.startswith("lab")] == [
        "lab is ready, but no model of it is chosen: --model lab/<model>, or `model` in settings.toml"
    ]


NOT_FOUND = {"HTML": (ANSWERS["HTML"][0], "not what answers"), "no models": (lists(), "no model")}


@pytest.mark.parametrize(("answer", "part"), NOT_FOUND.values(), ids=NOT_FOUND.keys())
def test_something_else_on_the_usual_port_counts_as_none(answer: Answer, part: str) -> None:
    with serving(answer) as server:
        providers = Providers({**nowhere(), "LLAMA_BASE_URL": f"http://127.0.0.1:{server.port}"})
        assert providers.choose() == "scripted/demo"
    assert part in str(providers.status("llamacpp").why_not)


def test_lists_are_kept_for_a_while() -> None:
    now = [100.0]
    with serving(lists("a")) as server:
        environ = {**nowhere(), "LLAMA_BASE_URL": f"http://127.0.0.1:{server.port}"}
        providers = Providers(environ, clock=lambda: now[0])
        asked = []
        for passed in (0.0, 29.0, 1.0, 29.9):
            now[0] += passed
            providers.look(30.0)
            asked.append(len(server.requests))
    assert asked == [1, 1, 2, 2]
