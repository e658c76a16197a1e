"""Every endpoint; the router and `openapi.yaml` are both made from this table."""

from server.routes import events, health, history, permissions, prompts, sessions
from server.routes.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *health.ENDPOINTS,
    *sessions.ENDPOINTS,
    *history.ENDPOINTS,
    *prompts.ENDPOINTS,
    *permissions.ENDPOINTS,
    *events.ENDPOINTS,
)
