"""Every endpoint; the router and `openapi.yaml` are both made from this table."""

from server.answers import Snapshot
from server.routes import (
    approvals,
    blobs,
    compaction,
    events,
    export,
    fork,
    health,
    history,
    permissions,
    prompts,
    queue,
    rules,
    sessions,
    tasks,
    trace,
    undo,
)
from server.routes.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *health.ENDPOINTS,
    *sessions.ENDPOINTS,
    *history.ENDPOINTS,
    *prompts.ENDPOINTS,
    *queue.ENDPOINTS,
    *tasks.ENDPOINTS,
    *blobs.ENDPOINTS,
    *permissions.ENDPOINTS,
    *rules.ENDPOINTS,
    *approvals.ENDPOINTS,
    *compaction.ENDPOINTS,
    *undo.ENDPOINTS,
    *fork.ENDPOINTS,
    *export.ENDPOINTS,
    *trace.ENDPOINTS,
    *events.ENDPOINTS,
)

CONTROL_EVENTS = (Snapshot,)
"""Events of a single stream that are no agent events."""
