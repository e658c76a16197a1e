"""What spans and measurements are written with: one for the process. It knows OpenTelemetry's API, not its SDK.

Nothing here waits: a span that has ended is put into a queue, which a thread of the SDK's sends on.
"""

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context

from agentcore.telemetry import conventions as say
from agentcore.telemetry.content import Content
from agentcore.telemetry.conventions import Attributes
from agentcore.usage import Usage

SCOPE = "agentcore"
ROOT = Context()
"""The parent of what has none; what may surround us here is nobody's parent."""
_KINDS = {say.CHAT: SpanKind.CLIENT, say.INVOKE_AGENT: SpanKind.INTERNAL, say.EXECUTE_TOOL: SpanKind.INTERNAL}


class Pen:
    """Times are Unix seconds."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, content: Content | None = None) -> None:
        """`content` writes down what was said; None: nothing of it is."""
        self.content = content
        self._tracer = tracers.get_tracer(SCOPE)
        meter = meters.get_meter(SCOPE)
        self._durations = {
            operation: meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=borders)
            for operation, name, what, borders in (
                (say.CHAT, "gen_ai.client.operation.duration", "How long model calls take.", say.SECONDS),
                (say.EXECUTE_TOOL, "gen_ai.execute_tool.duration", "How long tool calls take.", say.SECONDS),
                (say.INVOKE_AGENT, "gen_ai.invoke_agent.duration", "How long runs take.", say.RUN_SECONDS),
            )
        }
        self._first_chunk = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "How long the first part of an answer takes.",
            explicit_bucket_boundaries_advisory=say.SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that model calls read and wrote.",
            explicit_bucket_boundaries_advisory=say.TOKENS,
        )
        self._errors = meter.create_counter("agentcore.errors", "{error}", "What failed, by its kind.")

    # --- spans ---

    def begin(self, operation: str, what: str, at: float, parent: Context, attributes: Attributes) -> Span:
        """`what` is the name of the model, tool or agent."""
        return self._tracer.start_span(
            f"{operation} {what}".rstrip(),
            context=parent,
            kind=_KINDS[operation],
            attributes={say.OPERATION: operation, **attributes},
            start_time=_ns(at),
        )

    def note(self, span: Span, name: str, at: float, attributes: Attributes) -> None:
        """Something that happened meanwhile."""
        span.add_event(name, attributes, _ns(at))

    def end(self, span: Span, at: float, error: str | None = None) -> None:
        """`error` is the kind of its failure."""
        if error is not None:
            span.set_attribute(say.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(at))

    # --- measurements; attributes have few values each ---

    def measure(self, operation: str, seconds: float, attributes: Attributes, error: str | None = None) -> None:
        """How long something took, and the kind of its failure."""
        failed: Attributes = {} if error is None else {say.ERROR_TYPE: error}
        named: Attributes = {say.OPERATION: operation}
        self._durations[operation].record(
            max(seconds, 0.0), {**attributes, **failed, **(named if operation == say.CHAT else {})}
        )
        if error is not None:
            self._errors.add(1, {**named, **attributes, **failed})

    def measure_first_chunk(self, seconds: float, attributes: Attributes) -> None:
        self._first_chunk.record(seconds, {say.OPERATION: say.CHAT, **attributes})

    def count_tokens(self, spent: Usage, attributes: Attributes) -> None:
        for kind, tokens in (("input", tokens_read(spent)), ("output", spent.output)):
            self._tokens.record(tokens, {say.OPERATION: say.CHAT, **attributes, say.TOKEN_TYPE: kind})


def inside(span: Span) -> Context:
    """The place of what belongs to a span."""
    return set_span_in_context(span, ROOT)


def tokens_read(spent: Usage) -> int:
    """All of them: by the conventions those from the cache and into it are input as well."""
    return spent.input + spent.cache_read + spent.cache_write


def of_usage(spent: Usage, cost_usd: float | None) -> Attributes:
    said: Attributes = {
        say.INPUT_TOKENS: tokens_read(spent),
        say.OUTPUT_TOKENS: spent.output,
        say.CACHE_READ_TOKENS: spent.cache_read,
        say.CACHE_WRITE_TOKENS: spent.cache_write,
        say.REASONING_TOKENS: spent.reasoning,
    }
    return said if cost_usd is None else {**said, say.COST_USD: cost_usd}


def _ns(at: float) -> int:
    return round(at * 1000) * 1_000_000  # events have milliseconds
