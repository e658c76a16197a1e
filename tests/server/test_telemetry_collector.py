"""OpenTelemetry as users have it: a real server, the standard variables, and a collector that takes what it sends."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentcore_client.client import Client
from tests.daemon import WAIT_S, Daemon, running

pytestmark = pytest.mark.anyio

STORY = {"turns": [{"text": "Look.", "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "Done."}]}
MODEL = ("--model", "scripted/story.json")
LOADED = """
import sys
from pathlib import Path
import anyio
from agentcore.app import App
from agentcore.app_config import AppConfig

async def main():
    root = Path(sys.argv[1])
    app = App(AppConfig((root,), root / "data", root / "state", root / "config", model="scripted/story.json"))
    agent = await app.create(root, await app.defaults(root), None)
    agent.accept("hello")
    agent.claim()
    await agent.run()
    print("\\n".join(sys.modules))
    await app.close()

anyio.run(main)
"""


@dataclass
class Collector:
    """What a collector on loopback was sent."""

    url: str = ""
    status: int = 200
    answers: threading.Event = field(default_factory=threading.Event)
    keys: set[str | None] = field(default_factory=set)
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    took: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                self.traces.append(ExportTraceServiceRequest.FromString(body))
            case "/v1/metrics":
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.took.set()
        self.answers.wait()

    @property
    def spans(self) -> list[Any]:
        scopes = [scope for sent in self.traces for one in sent.resource_spans for scope in one.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def measured(self) -> set[str]:
        scopes = [scope for sent in self.metrics for one in sent.resource_metrics for scope in one.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}

    def resource(self) -> dict[str, str]:
        [sent, *_] = self.traces
        return {one.key: one.value.string_value for one in sent.resource_spans[0].resource.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    found.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.keys.add(self.headers["x-key"])
            found.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(found.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.answers.set()
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def served(root: Path, **environment: str) -> Iterator[Daemon]:
    Daemon(root).script("story", STORY)
    with running(root, *MODEL, **environment) as daemon:
        yield daemon


def run(daemon: Daemon) -> None:
    with Client(daemon.url, daemon.token) as client:
        assert client.create_session().prompt_and_wait("go").text == "Done."


def stop(daemon: Daemon) -> int:
    assert daemon.process is not None
    daemon.process.terminate()
    return daemon.process.wait(WAIT_S)


def test_a_collector_gets_the_spans_and_metrics_of_a_run(tmp_path: Path, collector: Collector) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k-123",
        "OTEL_RESOURCE_ATTRIBUTES": "team=blue",
    }
    with served(tmp_path, **environment) as daemon:
        run(daemon)
        assert stop(daemon) == 0
        assert daemon.log().count("\n  note") == 0
    names = {span.span_id: span.name for span in collector.spans}
    found = sorted((span.name, names.get(span.parent_span_id)) for span in collector.spans)
    assert found == [
        ("chat story.json", "invoke_agent"),
        ("chat story.json", "invoke_agent"),
        ("execute_tool ls", "invoke_agent"),
        ("invoke_agent", None),
    ]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert {"gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"} <= collector.measured
    assert collector.keys == {"k-123"}
    about = collector.resource()
    assert (about["service.name"], about["team"]) == ("agentcore", "blue")


def test_a_run_without_a_server_is_exported_as_well(tmp_path: Path, collector: Collector) -> None:
    daemon = Daemon(tmp_path)
    model = daemon.script("story", STORY)
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "mine", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "server.cli", "run", "--model", model, "--state-dir", str(daemon.state_dir)]
    ran = subprocess.run(
        [*command, "-p", "go"], cwd=daemon.cwd, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert (ran.stdout, ran.stderr) == ("Done.\n", "")
    assert [span.name for span in collector.spans if not span.parent_span_id] == ["invoke_agent"]
    assert collector.resource()["service.name"] == "mine"


def test_a_collector_that_is_not_there_costs_one_warning(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        environment = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url}
        with served(tmp_path, **environment, OTEL_BSP_SCHEDULE_DELAY="10", OTEL_EXPORTER_OTLP_TIMEOUT="1") as daemon:
            run(daemon)
            run(daemon)
            assert stop(daemon) == 0
            assert daemon.log().count("reach the OpenTelemetry collector") == 1
            assert daemon.log().count("Failed to export") == 1
            assert "Transient" not in daemon.log()


def test_a_run_without_a_server_says_that_nothing_reached_the_collector(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    model = daemon.script("story", STORY)
    command = [sys.executable, "-m", "server.cli", "run", "--model", model, "--state-dir", str(daemon.state_dir)]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ran = subprocess.run(
            [*command, "-p", "go"],
            cwd=daemon.cwd,
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": url, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert ran.stdout == "Done.\n"
    assert ran.stderr == "agentcore: the OpenTelemetry collector did not take what was left in 1 s; it is lost\n"


def test_a_collector_that_takes_and_does_not_answer_holds_up_neither_runs_nor_the_stop(
    tmp_path: Path, collector: Collector
) -> None:
    collector.answers.clear()
    with served(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="10") as daemon:
        run(daemon)
        assert collector.took.wait(WAIT_S)
        run(daemon)
        assert stop(daemon) == 0
        assert "Traceback" not in daemon.log()


def test_what_cannot_be_done_is_told_at_the_start(tmp_path: Path, collector: Collector) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with served(tmp_path, **environment) as daemon:
        run(daemon)
        assert stop(daemon) == 0
        assert "note      OTEL_EXPORTER_OTLP_PROTOCOL is none that is spoken here" in daemon.log()
    assert (collector.traces, collector.metrics) == ([], [])


@pytest.mark.parametrize(
    ("environment", "is_loaded"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "here", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "here"}, True),
    ],
)
def test_nothing_of_it_is_loaded_where_it_is_not_asked_for(
    tmp_path: Path, collector: Collector, environment: dict[str, str], is_loaded: bool
) -> None:
    (tmp_path / "story.json").write_text(json.dumps(STORY))
    given = {name: collector.url if value == "here" else value for name, value in environment.items()}
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **given},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(ran.stdout.split())
    assert "agentcore.factory" in loaded
    assert ("opentelemetry.sdk" in loaded, "agentcore.telemetry.observer" in loaded) == (is_loaded, is_loaded)
    if not is_loaded:
        assert not {name for name in loaded if name.split(".")[0] == "opentelemetry"}
