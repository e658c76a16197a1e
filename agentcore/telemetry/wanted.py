"""What the standard OTEL_* variables ask for. OpenTelemetry itself is loaded only where they ask for something."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

Signal = Literal["traces", "metrics"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_IN_SPANS = frozenset({"true", "span_only", "span_and_event"})
_PROTOCOL = "http/protobuf"
_OTLP = frozenset({"otlp", "otlp_proto_http"})
"""The name of the specification, and the longer one of the SDK."""
_PARTS = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_MISSING = (
    "OpenTelemetry is asked for by OTEL_* variables and is not installed. Install it in a clone, with the pip that"
    " installed agentcore: pip install '.[otel]'"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    signals: frozenset[Signal] = frozenset()
    """What is exported; nothing: OpenTelemetry is off."""
    content: bool = False
    """Prompts, answers, and what tools get and give stand in the spans."""
    notices: tuple[str, ...] = ()
    """What was asked for and cannot be done, a sentence each."""


def wanted_by(environ: Mapping[str, str]) -> Wanted:
    """Off unless an exporter or the address of a collector is set, and where OTEL_SDK_DISABLED says so."""
    if _word(environ, "OTEL_SDK_DISABLED") == "true":
        return Wanted()
    asked = frozenset(signal for signal in SIGNALS if _is_asked_for(signal, environ))
    if asked and not _is_installed():
        return Wanted(notices=(_MISSING,))
    impossible = {signal: why for signal in asked if (why := _why_not(signal, environ)) is not None}
    told = (*dict.fromkeys(impossible.values()), *_unknown_exporters(environ))
    return Wanted(asked - impossible.keys(), _word(environ, CONTENT) in _CONTENT_IN_SPANS, told)


def _is_asked_for(signal: Signal, environ: Mapping[str, str]) -> bool:
    exporters = _exporters(signal, environ)
    if exporters:
        return not exporters.isdisjoint(_OTLP)
    return any(_word(environ, name) for name in _names(signal, "ENDPOINT"))


def _why_not(signal: Signal, environ: Mapping[str, str]) -> str | None:
    variable = next((name for name in _names(signal, "PROTOCOL") if _word(environ, name)), None)
    if variable is None or _word(environ, variable) == _PROTOCOL:
        return None
    return f"{variable} is none that is spoken here: set it to {_PROTOCOL}, and the endpoint to that port (4318)."


def _unknown_exporters(environ: Mapping[str, str]) -> Iterator[str]:
    for signal in SIGNALS:
        if _exporters(signal, environ) - _OTLP - {"none"}:
            yield f"OTEL_{signal.upper()}_EXPORTER names an exporter that there is not here; otlp and none can be used."


def _exporters(signal: Signal, environ: Mapping[str, str]) -> set[str]:
    return {one.strip() for one in _word(environ, f"OTEL_{signal.upper()}_EXPORTER").split(",")} - {""}


def _names(signal: Signal, what: str) -> tuple[str, str]:
    """The variable of the signal alone, which wins, and the one of all signals."""
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}"


def _word(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip().lower()


def _is_installed() -> bool:
    try:
        return all(find_spec(part) is not None for part in _PARTS)
    except ModuleNotFoundError:  # not even the package around it
        return False
