"""OpenTelemetry, part by part: what the variables ask for, how subagents nest, and that no exporter harms a run."""

import gc
import json
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentcore.encoding import encode, type_of
from agentcore.events import (
    AssistantMessage,
    Compacted,
    CompactionStart,
    Done,
    Event,
    ModelEnd,
    ModelStart,
    PermissionResolved,
    SessionClosed,
    Status,
    TaskState,
    TaskUpdate,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from agentcore.messages import Message, Text, ToolCall
from agentcore.redaction import Redactor
from agentcore.session import Settings
from agentcore.telemetry import room, switch, wanted
from agentcore.telemetry.content import MAX_CHARS, Content
from agentcore.telemetry.exporting import Outage
from agentcore.telemetry.observer import HEARD, Observer
from agentcore.telemetry.room import Telemetry
from agentcore.telemetry.switch import Switch
from agentcore.telemetry.wanted import CONTENT, Wanted, wanted_by
from agentcore.usage import Usage
from tests.fakes import Turn, call, house, say, use

pytestmark = pytest.mark.anyio

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
BOTH = frozenset({"traces", "metrics"})


# --- what is asked for ---


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, set()),
        ({"OTEL_SERVICE_NAME": "x", CONTENT: "true"}, set()),
        (ENDPOINT, BOTH),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, set()),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, set()),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE "}, set()),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "false"}, BOTH),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, {"traces"}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, {"metrics"}),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, {"traces"}),
        ({"OTEL_METRICS_EXPORTER": "otlp_proto_http"}, {"metrics"}),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "none"}, {"traces"}),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, BOTH),
    ],
)
def test_it_is_off_unless_an_exporter_is_set_up(environ: dict[str, str], signals: set[str]) -> None:
    assert wanted_by(environ) == Wanted(frozenset(signals), content=environ.get(CONTENT) == "true")  # type: ignore[arg-type]  # words of the table


@pytest.mark.parametrize(
    ("value", "content"),
    [("true", True), ("True", True), ("SPAN_ONLY", True), ("EVENT_ONLY", False), ("false", False), ("", False)],
)
def test_content_has_to_be_asked_for(value: str, content: bool) -> None:
    assert wanted_by(ENDPOINT | {CONTENT: value}).content is content


@pytest.mark.parametrize(
    ("environ", "signals", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, set(), ["OTEL_EXPORTER_OTLP_PROTOCOL"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, {"metrics"}, ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]),
        ({"OTEL_TRACES_EXPORTER": "console"}, {"metrics"}, ["OTEL_TRACES_EXPORTER"]),
        ({"OTEL_TRACES_EXPORTER": "otlp,zipkin"}, BOTH, ["OTEL_TRACES_EXPORTER"]),
    ],
)
def test_what_cannot_be_done_is_told(environ: dict[str, str], signals: set[str], named: list[str]) -> None:
    found = wanted_by(ENDPOINT | environ)
    assert found.signals == signals
    assert [notice.split()[0] for notice in found.notices] == named


def test_a_missing_sdk_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "_PARTS", ("no_such_package.sdk",))
    found = wanted_by(ENDPOINT)
    assert (found.signals, len(found.notices)) == (set(), 1)
    assert "pip install '.[otel]'" in found.notices[0]
    assert wanted_by({}) == Wanted()


def test_it_is_turned_on_once_and_a_failure_leaves_it_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "-1")
    broken = Switch(wanted_by(ENDPOINT))
    assert [broken.turn_on(Redactor()) for _ in range(2)] == [None, None]
    assert [record.name for record in caplog.records] == [switch.__name__]


# --- subagents ---


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(exporter: InMemorySpanExporter) -> Telemetry:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    return Telemetry(tracers, NoOpMeterProvider())


def tell(observer: Observer, *events: Event) -> None:
    """Each a second behind the one before it."""
    for number, event in enumerate(events, 1):
        observer(number, type_of(event), encode(event, number, "s", 1000.0 + number))


def tree(spans: Sequence[ReadableSpan], parent: int | None = None) -> list[Any]:
    mine = [span for span in spans if (None if span.parent is None else span.parent.span_id) == parent]
    mine.sort(key=lambda span: span.start_time or 0)
    inside = [(span.name, tree(spans, span.context.span_id)) for span in mine if span.context is not None]
    return [name if not within else (name, within) for name, within in inside]


def asked(agent: str | None = None, model: str = "a/m") -> list[Event]:
    return [
        TurnStart(turn=1, agent=agent),
        ModelStart(turn=1, model=model, agent=agent),
        ModelEnd(turn=1, stop_reason="tool_use", request_ms=1, agent=agent),
    ]


def task(call_id: str) -> ToolStart:
    return ToolStart(call_id=call_id, tool_name="task", input={}, group=0, position=0)


def delegated(label: str, call_id: str, task_id: str | None = None) -> UserMessage:
    """What a subagent begins with."""
    content = (Text(text="x"),)
    return UserMessage(id=label, content=content, agent=label, for_call=call_id, for_task=task_id)


def updated(task_id: str, state: TaskState) -> TaskUpdate:
    return TaskUpdate(task_id=task_id, kind="agent", label="explore: x", state=state)


def ended(call_id: str) -> ToolEnd:
    return ToolEnd(call_id=call_id, tool_name="task", output="x")


DONE = Done(run_id="run-1", stop_reason="end_turn", text="", usage=Usage(), turns=1)


def test_subagents_lie_in_the_calls_that_began_them(telemetry: Telemetry, exporter: InMemorySpanExporter) -> None:
    tell(
        telemetry.observer("s"),
        Status(busy=True),
        *asked(),
        task("t1"),
        task("t2"),
        delegated("explore-2", "t2"),
        delegated("explore-1", "t1"),
        *asked("explore-1", "a/first"),
        *asked("explore-2", "a/second"),
        TurnEnd(turn=1, agent="explore-2"),
        ended("t2"),
        TurnEnd(turn=1, agent="explore-1"),
        ended("t1"),
        TurnEnd(turn=1),
        DONE,
    )
    spans = exporter.get_finished_spans()
    assert tree(spans) == [
        (
            "invoke_agent",
            [
                "chat m",
                ("execute_tool task", [("invoke_agent explore", ["chat first"])]),
                ("execute_tool task", [("invoke_agent explore", ["chat second"])]),
            ],
        )
    ]
    labels = {
        span.attributes["gen_ai.agent.id"] for span in spans if span.attributes and "gen_ai.agent.id" in span.attributes
    }
    assert labels == {"explore-1", "explore-2"}


def test_a_subagent_in_the_background_outlives_its_call_and_its_run_and_ends_with_its_task(
    telemetry: Telemetry, exporter: InMemorySpanExporter
) -> None:
    observer = telemetry.observer("s")
    tell(
        observer,
        Status(busy=True),
        *asked(),
        task("t1"),
        updated("bg-1", "running"),
        delegated("explore-1", "t1", "bg-1"),
        ended("t1"),
        TurnEnd(turn=1),
        DONE,
        Status(busy=False),
        ModelStart(turn=1, model="a/late", agent="explore-1"),
        ModelEnd(turn=1, stop_reason="end_turn", request_ms=1, agent="explore-1"),
        TurnEnd(turn=1, agent="explore-1"),  # the 14th event: there it ends
        updated("bg-2", "completed"),
    )
    assert [span.name for span in exporter.get_finished_spans()][-1] != "invoke_agent explore"
    tell(observer, updated("bg-1", "completed"))
    spans = exporter.get_finished_spans()
    assert tree(spans) == [
        ("invoke_agent", ["chat m", ("execute_tool task", [("invoke_agent explore", ["chat late"])])])
    ]
    assert (spans[-1].name, spans[-1].end_time) == ("invoke_agent explore", 1014 * 10**9)


def test_a_subagent_that_is_stopped_in_the_middle_ends_with_its_task(
    telemetry: Telemetry, exporter: InMemorySpanExporter
) -> None:
    tell(
        telemetry.observer("s"),
        Status(busy=True),
        task("t1"),
        delegated("explore-1", "t1", "bg-1"),
        ended("t1"),
        *asked("explore-1"),
        updated("bg-1", "stopped"),  # the 8th event
    )
    ends = {span.name: span.end_time for span in exporter.get_finished_spans()}
    assert ends["invoke_agent explore"] == 1008 * 10**9


def test_the_end_of_a_session_ends_whatever_is_open(telemetry: Telemetry, exporter: InMemorySpanExporter) -> None:
    tell(
        telemetry.observer("s"),
        Status(busy=True),
        TurnStart(turn=1),
        task("t1"),
        *asked("explore-1"),
        ModelStart(turn=1, model="a/m"),
        SessionClosed(reason="closed"),
    )
    spans = exporter.get_finished_spans()
    assert sorted(span.name for span in spans) == [
        "chat m",
        "chat m",
        "execute_tool task",
        "invoke_agent",
        "invoke_agent explore",
    ]


def test_a_run_begins_when_the_session_is_claimed_and_the_next_one_when_it_is_done(
    telemetry: Telemetry, exporter: InMemorySpanExporter
) -> None:
    hello = UserMessage(id="m", content=(Text(text="x"),))
    turn = (TurnStart(turn=1), TurnEnd(turn=1))
    tell(telemetry.observer("s"), Status(busy=True), hello, *turn, DONE, hello, *turn, DONE, Status(busy=False), hello)
    runs = [(span.start_time, span.end_time) for span in exporter.get_finished_spans()]
    assert runs == [(1001 * 10**9, 1005 * 10**9), (1005 * 10**9, 1009 * 10**9)]


def test_what_comes_after_a_run_begins_none(telemetry: Telemetry, exporter: InMemorySpanExporter) -> None:
    """Answers to a suspended run's questions, and the results of deferred calls."""
    observer = telemetry.observer("s")
    tell(observer, PermissionResolved(request_id="p", call_id="c", resolution="allowed"), ended("t"), TurnEnd(turn=1))
    observer.close()
    assert exporter.get_finished_spans() == ()


def test_a_vendor_that_tells_no_tokens_has_used_none(telemetry: Telemetry, exporter: InMemorySpanExporter) -> None:
    nothing = Usage()
    report = UsageReport(model="a/m", spent=nothing, total=nothing, context_tokens=0, context_window=1)
    tell(telemetry.observer("s"), Status(busy=True), *asked(model="mistral/m"), report, TurnEnd(turn=1))
    [chat] = exporter.get_finished_spans()
    assert "gen_ai.usage.input_tokens" not in (chat.attributes or {})
    assert (chat.attributes or {})["gen_ai.provider.name"] == "mistral_ai"


async def test_the_span_of_one_in_the_background_is_exported_when_its_task_has_ended(
    tmp_path: Path, telemetry: Telemetry, exporter: InMemorySpanExporter
) -> None:
    def subagents() -> list[ReadableSpan]:
        return [span for span in exporter.get_finished_spans() if span.name.startswith("invoke_agent ")]

    async with house(tmp_path, telemetry=telemetry) as home:
        live = await home.session()
        given = {"description": "look", "prompt": "Look.", "subagent_type": "explore", "run_in_background": True}
        hold = anyio.Event()
        home.provider.script(
            use(call("task", **given)), Turn([], [Text(text="x")], holds=hold), Turn([], [Text(text="y")], holds=hold)
        )
        live.prompt("go")
        with anyio.fail_after(5):
            while home.provider.open_streams < 2:
                await anyio.lowlevel.checkpoint()
        assert subagents() == []
        await live.stop_task("bg-1")  # while the run goes on
        assert len(subagents()) == 1
        assert home.provider.open_streams == 1


# --- what was said ---


@pytest.fixture
def talkative(exporter: InMemorySpanExporter) -> Telemetry:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    return Telemetry(tracers, NoOpMeterProvider(), content=True)


def call_of_model(turn: int, *, beside: bool = False, attempt: int = 1, agent: str | None = None) -> list[Event]:
    return [
        ModelStart(turn=turn, model="a/m", beside=beside, attempt=attempt, agent=agent),
        ModelEnd(turn=turn, stop_reason="tool_use", request_ms=1, beside=beside, agent=agent),
    ]


def answer(*calls: str, agent: str | None = None) -> AssistantMessage:
    blocks = tuple(ToolCall(id=call, name="read", input={}) for call in calls)
    return AssistantMessage(message=Message(id="a", role="assistant", content=blocks), final=not calls, agent=agent)


def told(text: str, agent: str | None = None) -> UserMessage:
    return UserMessage(id=text, content=(Text(text=text),), agent=agent)


def result(call: str, agent: str | None = None) -> ToolEnd:
    return ToolEnd(call_id=call, tool_name="read", output=f"of {call}", agent=agent)


def inputs(exporter: InMemorySpanExporter, operation: str) -> list[Any]:
    """Of the spans of that operation, as short as possible: texts with the first letter of their role."""
    spans = [span for span in exporter.get_finished_spans() if span.name.startswith(operation)]
    spans.sort(key=lambda span: span.start_time or 0)
    return [_short(str(span.attributes["gen_ai.input.messages"])) if has_input(span) else None for span in spans]


def has_input(span: ReadableSpan) -> bool:
    return "gen_ai.input.messages" in (span.attributes or {})


def _short(messages: str) -> list[str]:
    found = []
    for message in json.loads(messages):
        [part] = message["parts"]
        said = f"{part['id']}={part['response']}" if message["role"] == "tool" else part["content"]
        found.append(f"{message['role'][0]}: {said}")
    return found


def test_a_model_call_says_what_is_new_since_the_last_answer_results_in_the_order_of_their_calls(
    talkative: Telemetry, exporter: InMemorySpanExporter
) -> None:
    tell(
        talkative.observer("s"),
        Status(busy=True),
        told("go"),
        *call_of_model(1),  # it fails
        *call_of_model(1, attempt=2),
        answer("t1", "t2"),
        *call_of_model(1, beside=True),  # the check of a hook
        result("t2"),
        result("t1"),
        told("and be quick"),
        *call_of_model(2),
        answer("t3"),
        result("t3"),
        *call_of_model(3),
        answer(),
        DONE,
    )
    assert inputs(exporter, "chat") == [
        ["u: go"],
        ["u: go"],
        None,
        ["t: t1=of t1", "t: t2=of t2", "u: and be quick"],
        ["t: t3=of t3"],
    ]
    assert inputs(exporter, "invoke_agent") == [["u: go", "u: and be quick"]]


@pytest.mark.parametrize(
    ("kept", "new"),
    [
        ((), ["u: so far"]),
        (("quick",), ["u: so far", "u: quick"]),
        (("a", "results", "quick"), ["u: so far", "t: t1=of t1", "u: quick"]),
    ],
)
def test_behind_a_compaction_the_context_begins_with_its_summary(
    talkative: Telemetry, exporter: InMemorySpanExporter, kept: tuple[str, ...], new: list[str]
) -> None:
    summary = Message(id="s", role="user", content=(Text(text="so far"),))
    tell(
        talkative.observer("s"),
        Status(busy=True),
        told("go"),
        *call_of_model(1),
        answer("t1"),
        result("t1"),
        told("quick"),
        CompactionStart(trigger="auto", estimated_tokens=1),
        *call_of_model(2),
        Compacted(strategy="summarize", ok=True, before_tokens=2, after_tokens=1, message=summary, kept=kept),
        *call_of_model(2),
        answer(),
        DONE,
    )
    assert inputs(exporter, "chat") == [["u: go"], None, new]


def test_a_subagent_is_told_its_own(talkative: Telemetry, exporter: InMemorySpanExporter) -> None:
    tell(
        talkative.observer("s"),
        Status(busy=True),
        told("go"),
        task("t1"),
        delegated("explore-1", "t1"),
        *call_of_model(1, agent="explore-1"),
        answer("u1", agent="explore-1"),
        result("u1", agent="explore-1"),
        *call_of_model(2, agent="explore-1"),
        answer(agent="explore-1"),
        TurnEnd(turn=2, agent="explore-1"),
        ended("t1"),
        DONE,
    )
    assert inputs(exporter, "chat") == [["u: x"], ["t: u1=of u1"]]


def test_nothing_of_it_is_kept_where_content_is_not_wanted(
    telemetry: Telemetry, exporter: InMemorySpanExporter
) -> None:
    tell(telemetry.observer("s"), Status(busy=True), told("go"), *call_of_model(1), answer(), DONE)
    assert not [span for span in exporter.get_finished_spans() if has_input(span)]


def test_pieces_of_texts_are_passed_over_unread(telemetry: Telemetry) -> None:
    assert HEARD.isdisjoint({"text_delta", "thinking_delta", "tool_call_delta", "tool_output_delta"})
    telemetry.observer("s")(1, "text_delta", b"no JSON at all")


def test_a_text_is_bounded_where_it_stands() -> None:
    found = Content(Redactor()).json({"deep": ["x" * (MAX_CHARS + 1)], "number": 1})
    assert found == '{"deep": ["' + "x" * MAX_CHARS + '… [cut]"], "number": 1}'


# --- exporters that do harm ---


class Silent(SpanExporter):
    """A collector that takes a batch and does not answer."""

    def __init__(self) -> None:
        self.took = threading.Event()
        self.answers = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.took.set()
        self.answers.wait()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


@pytest.fixture
def silent() -> Iterator[Silent]:
    exporter = Silent()
    yield exporter
    exporter.answers.set()


async def test_no_run_and_no_stop_waits_for_a_collector(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "CLOSE_S", 0.01)
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(silent, schedule_delay_millis=1))
    telemetry = Telemetry(tracers, NoOpMeterProvider(), shut_down=tracers.shutdown)
    async with house(tmp_path, telemetry=telemetry) as home:
        live = await home.session()
        home.provider.script(say("One."), say("Two."))
        await home.run(live, "first")
        await anyio.to_thread.run_sync(silent.took.wait)
        assert (await home.run(live, "second"))[-2].type == "done"
        with anyio.fail_after(5):
            await home.app.close()


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage("traces")
    why = logging.makeLogRecord({"levelno": logging.ERROR})
    attempt = logging.makeLogRecord({"levelno": logging.WARNING})
    passed = []
    for arrived in (True, False, False, True, True, False):
        passed.append((outage.filter(attempt), outage.filter(why)))
        outage.saw(arrived=arrived)
    assert passed == [(False, True), (False, True), (False, False), (False, False), (False, True), (False, True)]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


async def test_a_closed_session_is_freed_without_the_collector(tmp_path: Path, telemetry: Telemetry) -> None:
    gc.disable()
    try:
        async with house(tmp_path, telemetry=telemetry) as home:
            live = await home.hub.create(tmp_path / "work", Settings())
            home.provider.script(say("Done."))
            await live.outcome_of(live.prompt("Go on.").prompt_id).wait()
            home.provider.requests.clear()
            [observer] = telemetry._observers
            left = weakref.ref(observer)
            del observer
            await home.hub.close(live, "deleted")
            del live
            with anyio.fail_after(5):
                while left() is not None:
                    await anyio.lowlevel.checkpoint()
            assert len(telemetry._observers) == 0
    finally:
        gc.enable()
