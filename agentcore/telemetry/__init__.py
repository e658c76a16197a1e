"""Spans and metrics for OpenTelemetry, made of what a session's log tells."""
