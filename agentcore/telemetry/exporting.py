"""The SDK of OpenTelemetry with its exporters over HTTP, as the standard variables set them up. Loaded late.

They are read by the SDK itself: address, headers, time limits, sampling, how much a batch and an attribute may hold,
the name of the service. Our own: a collector that takes nothing is told once, and not with every batch.
"""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider

from agentcore.redaction import Redactor
from agentcore.telemetry.room import Telemetry
from agentcore.telemetry.wanted import Signal, Wanted

logger = logging.getLogger(__name__)

_LOGGERS: dict[Signal, str] = {"traces": trace_exporter.__name__, "metrics": metric_exporter.__name__}


class Outage(logging.Filter):
    """Lets the first word of an exporter about each outage through, and no other: it is the one that says why."""

    def __init__(self, signal: Signal) -> None:
        super().__init__()
        self._signal = signal
        self._is_on = False

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and not self._is_on

    def saw(self, *, arrived: bool) -> None:
        """What became of a batch."""
        if arrived and self._is_on:
            logger.info("the OpenTelemetry collector takes %s again", self._signal)
        elif not arrived and not self._is_on:
            logger.warning("no %s reach the OpenTelemetry collector; what comes until they do is lost", self._signal)
        self._is_on = not arrived


class _SpanExporter(trace_exporter.OTLPSpanExporter):
    def __init__(self, outage: Outage) -> None:
        super().__init__()
        self._outage = outage

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self._outage.saw(arrived=result is SpanExportResult.SUCCESS)
        return result


class _MetricExporter(metric_exporter.OTLPMetricExporter):
    def __init__(self, outage: Outage) -> None:
        super().__init__()
        self._outage = outage

    def export(self, *given: Any, **named: Any) -> MetricExportResult:
        result = super().export(*given, **named)
        self._outage.saw(arrived=result is MetricExportResult.SUCCESS)
        return result


def start(wanted: Wanted, redactor: Redactor) -> Telemetry:
    """Begin to export what is wanted. Blocking, since much is loaded. Raises what the SDK does for odd variables."""
    resource, outages = _resource(), {signal: Outage(signal) for signal in wanted.signals}
    tracers, meters = _tracers(resource, outages.get("traces")), _meters(resource, outages.get("metrics"))
    for signal, outage in outages.items():
        logging.getLogger(_LOGGERS[signal]).addFilter(outage)

    def shut_down() -> None:
        try:
            for provider in (tracers, meters):
                if provider is not None:
                    provider.shutdown()
        finally:
            for signal, outage in outages.items():
                logging.getLogger(_LOGGERS[signal]).removeFilter(outage)

    return Telemetry(
        tracers or NoOpTracerProvider(),
        meters or NoOpMeterProvider(),
        content=wanted.content,
        redactor=redactor,
        shut_down=shut_down,
    )


def _tracers(resource: Resource, outage: Outage | None) -> TracerProvider | None:
    if outage is None:
        return None
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_SpanExporter(outage)))
    return provider


def _meters(resource: Resource, outage: Outage | None) -> MeterProvider | None:
    if outage is None:
        return None
    reader = PeriodicExportingMetricReader(_MetricExporter(outage))
    return MeterProvider([reader], resource, shutdown_on_exit=False)


def _resource() -> Resource:
    """Who we are, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say something else."""
    own = {"service.name": "agentcore", "service.version": version("agentcore-server")}
    given = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in own.items() if name not in given})
