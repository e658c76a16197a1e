"""Every endpoint; the router and `openapi.yaml` are both made from this table."""

from server.routes import blobs, events, health, history, permissions, prompts, sessions
from server.routes.table import Endpoint
from server.schemas import Snapshot

ENDPOINTS: tuple[Endpoint, ...] = (
    *health.ENDPOINTS,
    *sessions.ENDPOINTS,
    *history.ENDPOINTS,
    *prompts.ENDPOINTS,
    *blobs.ENDPOINTS,
    *permissions.ENDPOINTS,
    *events.ENDPOINTS,
)

CONTROL_EVENTS = (Snapshot,)
"""Events of a single stream that are no agent events."""
