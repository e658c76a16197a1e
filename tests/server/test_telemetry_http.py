"""OpenTelemetry: what becomes of runs, seen through the exporters that the SDK has for tests."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentcore.app import App
from agentcore.redaction import Redactor
from agentcore.telemetry.room import Telemetry
from server.asgi import Application, core_config
from server.settings import Folders, ServerSettings

pytestmark = pytest.mark.anyio

TOKEN = "telemetry-under-test-0123456789"
KEY = "sk-ant-api03-AbCd1234EfGh5678IjKl"
WRITE = {"name": "write", "input": {"file_path": "a.txt", "content": f"key {KEY}"}, "id": "call-1"}
USED = {"input": 100, "cache_read": 900, "cache_write": 20, "output": 7, "reasoning": 3}
SCRIPT = {
    "scenes": [
        {
            "match": "again",
            "turns": [{"text": "Late.", "error": {"kind": "overloaded", "message": "Full."}, "fail_times": 1}],
        },
        {"match": "broke", "turns": [{"error": {"kind": "quota", "message": "No credit left."}}]},
        {
            "match": "missing",
            "turns": [{"tool_calls": [{"name": "read", "input": {"file_path": "no"}}]}, {"text": "No"}],
        },
        {"turns": [{"text": "I write.", "tool_calls": [WRITE], "usage": USED}, {"text": "Done.", "usage": USED}]},
    ]
}


@dataclass
class Served:
    """An application in this process, and what it exported."""

    work: Path
    http: httpx.AsyncClient
    application: Application
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    sessions: list[str] = field(default_factory=list)

    async def session(self, **settings: Any) -> str:
        answer = await self.http.post("/v1/sessions", json=settings)
        self.sessions.append(answer.json()["id"])
        return self.sessions[-1]

    async def post(self, path: str, **body: Any) -> Any:
        answer = await self.http.post(f"/v1/sessions/{self.sessions[-1]}/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def prompt(self, text: str = "go") -> Any:
        """Send a prompt and wait for its end."""
        return await self.post("prompt", text=text, wait=True)

    async def until_asked(self) -> str:
        """The request that waits."""
        with anyio.fail_after(10):
            while True:
                answer = await self.http.get(f"/v1/sessions/{self.sessions[-1]}/permissions")
                if found := answer.json()["permissions"]:
                    return str(found[0]["request_id"])
                await anyio.sleep(0.001)

    async def until_idle(self) -> None:
        with anyio.fail_after(10):
            while (await self.http.get(f"/v1/sessions/{self.sessions[-1]}")).json()["busy"]:  # noqa: ASYNC110 - lets workers run
                await anyio.sleep(0.001)

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """Those of a kind that the journal has."""
        answer = await self.http.get(f"/v1/sessions/{self.sessions[-1]}/export?format=jsonl")
        return [event for event in map(json.loads, answer.text.splitlines()) if event["type"] == kind]

    # --- what was exported ---

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: (span.start_time, span.name != INVOKE))

    def tree(self) -> list[Any]:
        return tree_of(self.spans)

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


INVOKE = "invoke_agent"


def tree_of(spans: list[ReadableSpan], parent: int | None = None) -> list[Any]:
    """Names, with those of what lies inside."""
    mine = [span for span in spans if (None if span.parent is None else span.parent.span_id) == parent]
    inside = [(span.name, tree_of(spans, span.context.span_id)) for span in mine if span.context is not None]
    return [name if not within else (name, within) for name, within in inside]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def content() -> bool:
    return False


@pytest.fixture
async def served(tmp_path: Path, content: bool) -> AsyncIterator[Served]:
    work = tmp_path / "work"
    work.mkdir()
    (work / "story.json").write_text(json.dumps(SCRIPT))
    settings = ServerSettings(
        cwd=work,
        roots=(work.resolve(),),
        folders=Folders(tmp_path / "config", tmp_path / "data", tmp_path / "state"),
        token=TOKEN,
        model="scripted/story.json",
    )
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracers, meters, content=content, redactor=Redactor())
    application = Application(settings, App(core_config(settings), telemetry=telemetry))
    await application.start()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(application.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:80", headers=headers) as http:
        yield Served(work, http, application, exporter, reader)
    await application.stop()
    meters.shutdown()


async def test_a_run_is_a_span_that_holds_its_model_and_tool_calls(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    session = await served.session(mode="accept-edits")
    await served.prompt()
    done = (await served.events("done"))[0]
    assert served.tree() == [("invoke_agent", ["chat story.json", "execute_tool write", "chat story.json"])]
    run, asked, wrote, answered = served.spans
    used = {
        "gen_ai.usage.input_tokens": 1020,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 900,
        "gen_ai.usage.cache_creation.input_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    model = {"gen_ai.provider.name": "scripted", "gen_ai.request.model": "story.json"}
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": session,
        "gen_ai.request.stream": True,
        "agentcore.attempt": 1,
        **model,
        **used,
    }
    first_chunks = [attributes(span).pop("gen_ai.response.time_to_first_chunk") for span in (asked, answered)]
    assert all(isinstance(seconds, float) for seconds in first_chunks)
    assert without(asked, "gen_ai.response.time_to_first_chunk", "agentcore.cost_usd") == {
        **chat,
        "agentcore.turn": 1,
        "gen_ai.response.finish_reasons": ("tool_use",),
    }
    assert without(answered, "gen_ai.response.time_to_first_chunk", "agentcore.cost_usd") == {
        **chat,
        "agentcore.turn": 2,
        "gen_ai.response.finish_reasons": ("end_turn",),
    }
    assert attributes(wrote) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": session,
        "gen_ai.tool.name": "write",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call-1",
    }
    assert without(run, "agentcore.cost_usd") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": session,
        **model,
        **{name: 2 * amount for name, amount in used.items()},
        "agentcore.run.id": done["run_id"],
        "agentcore.prompt.id": done["prompt_id"],
        "agentcore.stop_reason": "end_turn",
        "agentcore.turns": 2,
    }
    assert [span.kind.name for span in served.spans] == ["INTERNAL", "CLIENT", "INTERNAL", "CLIENT"]
    assert {span.status.status_code.name for span in served.spans} == {"UNSET"}


def without(span: ReadableSpan, *names: str) -> dict[str, Any]:
    return {name: value for name, value in attributes(span).items() if name not in names}


async def test_the_kind_of_a_failure_is_said(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session()
    await served.prompt("again")
    await served.prompt("missing")
    await served.prompt("broke")
    failed = [(span.name, kind) for span in served.spans if (kind := attributes(span).get("error.type"))]
    assert failed == [
        ("chat story.json", "overloaded"),
        ("execute_tool read", "tool_error"),
        (INVOKE, "quota"),
        ("chat story.json", "quota"),
    ]
    assert [attributes(span).get("agentcore.attempt") for span in served.spans[:3]] == [None, 1, 2]
    is_bad = {span.status.status_code.name: bool(attributes(span).get("error.type")) for span in served.spans}
    assert is_bad == {"ERROR": True, "UNSET": False}
    counted = {
        (point.attributes["gen_ai.operation.name"], point.attributes["error.type"]): point.value
        for point in served.points("agentcore.errors")
    }
    assert counted == {
        ("chat", "overloaded"): 1,
        ("chat", "quota"): 1,
        ("execute_tool", "tool_error"): 1,
        (INVOKE, "quota"): 1,
    }


async def test_tokens_and_times_are_measured(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session(mode="accept-edits")
    await served.prompt()
    model = {"gen_ai.provider.name": "scripted", "gen_ai.request.model": "story.json"}
    chat = {"gen_ai.operation.name": "chat", **model}
    assert [
        (dict(point.attributes), point.count, point.sum) for point in served.points("gen_ai.client.token.usage")
    ] == [
        ({**chat, "gen_ai.token.type": "input"}, 2, 2040),
        ({**chat, "gen_ai.token.type": "output"}, 2, 14),
    ]
    run, first, tool, second = (span.end_time - span.start_time for span in served.spans)  # type: ignore[operator]  # ended
    for name, expected, nanoseconds, borders in (
        ("gen_ai.client.operation.duration", chat, first + second, 14),
        ("gen_ai.execute_tool.duration", {"gen_ai.tool.name": "write", "gen_ai.tool.type": "function"}, tool, 14),
        ("gen_ai.invoke_agent.duration", {}, run, 13),
    ):
        [point] = served.points(name)
        assert isinstance(point, HistogramDataPoint)
        assert (dict(point.attributes or {}), len(point.explicit_bounds)) == (expected, borders)
        assert point.sum == pytest.approx(nanoseconds / 1e9, abs=1e-6)  # times are floats on the way


async def test_waiting_for_a_person_is_told_on_the_run(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session()
    await served.post("prompt", text="go")
    request = await served.until_asked()
    await served.post(f"permissions/{request}", allow=False, reason="no")
    await served.until_idle()
    [run, *_] = served.spans
    assert [(event.name, dict(event.attributes or {})) for event in run.events] == [
        (
            "permission_request",
            {
                "agentcore.permission.request_id": request,
                "gen_ai.tool.name": "write",
                "agentcore.permission.kind": "tool",
            },
        ),
        (
            "permission_resolved",
            {
                "agentcore.permission.request_id": request,
                "agentcore.permission.resolution": "denied",
                "agentcore.permission.answered_by": "client",
            },
        ),
    ]
    assert served.tree() == [(INVOKE, ["chat story.json", "chat story.json"])]


async def test_a_cancel_leaves_nothing_open(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session()
    await served.post("prompt", text="go")
    await served.until_asked()
    assert [span.name for span in served.spans] == ["chat story.json"]  # what lies around it is not over
    await served.post("cancel")
    await served.until_idle()
    assert served.tree() == [(INVOKE, ["chat story.json"])]
    assert attributes(served.spans[0])["agentcore.stop_reason"] == "interrupted"


async def test_what_is_open_when_the_server_stops_is_ended_and_says_so(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session()
    await served.post("prompt", text="go")
    await served.until_asked()
    await served.application.stop()
    assert served.tree() == [(INVOKE, ["chat story.json"])]
    assert attributes(served.spans[0])["agentcore.left_open"] is True


async def test_a_summary_on_request_is_a_model_call_of_no_run(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session(mode="accept-edits")
    await served.prompt()
    await served.post("compact")
    await served.prompt("missing")
    assert [one if isinstance(one, str) else one[0] for one in served.tree()] == [INVOKE, "chat story.json", INVOKE]


async def test_nothing_of_what_was_said_is_exported(served: Served, monkeypatch: Any) -> None:
    monkeypatch.chdir(served.work)
    await served.session(mode="accept-edits")
    await served.prompt("my secret wish")
    exported = json.dumps([json.loads(span.to_json()) for span in served.spans])
    for said in ("my secret wish", "I write.", "Done.", "a.txt", KEY):
        assert said not in exported


@pytest.mark.parametrize("content", [True])
async def test_what_was_said_is_exported_where_that_was_asked_for_without_known_secrets(
    served: Served, monkeypatch: Any
) -> None:
    monkeypatch.chdir(served.work)
    await served.session(mode="accept-edits")
    await served.prompt("my wish")
    run, asked, wrote, answered = map(attributes, served.spans)
    assert json.loads(run["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "my wish"}]}
    ]
    assert json.loads(run["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "end_turn"}
    ]
    assert asked["gen_ai.input.messages"] == run["gen_ai.input.messages"]
    [new] = json.loads(answered["gen_ai.input.messages"])
    assert new == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call-1", "response": wrote["gen_ai.tool.call.result"]}],
    }
    written = {"file_path": "a.txt", "content": "key [redacted]"}
    assert json.loads(asked["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "I write."},
                {"type": "tool_call", "id": "call-1", "name": "write", "arguments": written},
            ],
            "finish_reason": "tool_use",
        }
    ]
    assert json.loads(wrote["gen_ai.tool.call.arguments"]) == written
    assert "a.txt" in wrote["gen_ai.tool.call.result"]
    assert json.loads(answered["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Done."}]
    assert KEY not in json.dumps([json.loads(span.to_json()) for span in served.spans])
