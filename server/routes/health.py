"""Is it up, what is it, and its description."""

from dataclasses import asdict
from importlib.metadata import version

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from agentcore.app import App
from agentcore.languages import LanguageState
from server.answers import Health, Info, LanguageInfo, McpServerInfo, ProviderInfo, SandboxInfo, TicketAnswer
from server.bodies import read_body
from server.openapi import served_bytes
from server.routes.context import hub_of, respond
from server.routes.table import Endpoint
from server.schemas import TicketBody
from server.tickets import Tickets

FEATURES = (
    "prompts",
    "permissions",
    "replay",
    "tickets",
    "resume",
    "attachments",
    "output_schema",
    "retry",
    "idempotency",
    "queue",
    "steer",
    "suspend",
    "compact",
    "undo",
    "fork",
    "export",
    "takeover",
    "approvals",
    "filters",
    "all_events",
    "why",
    "trace",
)


async def health(_request: Request) -> Response:
    return respond(Health())


async def info(request: Request) -> Response:
    app = hub_of(request).app
    roots = tuple(str(root) for root in app.config.roots)
    providers = tuple(
        ProviderInfo(name=one.name, models=one.models, ready=one.ready, why_not=one.why_not)
        for one in app.providers.describe()
    )
    response = respond(
        Info(
            version=version("agentcore-server"),
            cwd=roots[0],
            roots=roots,
            default_model=app.default_model,
            providers=providers,
            sandbox=_sandbox(app),
            mcp=tuple(McpServerInfo(**asdict(state)) for state in app.server_states()),
            lsp=tuple(map(_language, app.language_states())),
            features=FEATURES,
        )
    )
    response.background = BackgroundTask(app.look_nearby)  # after the answer: for whoever asks next
    return response


def _sandbox(app: App) -> SandboxInfo:
    if not app.settings.choices.sandbox.enabled:
        return SandboxInfo(available=False, why_not="It is switched off in the settings; each command asks.")
    sandbox = app.sandbox
    return SandboxInfo(kind=sandbox.kind, available=sandbox.is_available, why_not=sandbox.why_not)


def _language(state: LanguageState) -> LanguageInfo:
    return LanguageInfo(language=state.language, server=state.server, state=state.state, error=state.error)


async def openapi(_request: Request) -> Response:
    return Response(served_bytes(), media_type="application/yaml")


async def stream_ticket(request: Request) -> Response:
    """A single-use ticket for a browser's EventSource, which cannot send a header."""
    body = await read_body(request, TicketBody)
    session = None if body.session is None else (await hub_of(request).get(body.session)).id
    tickets: Tickets = request.app.state.tickets
    ticket = tickets.issue(session)
    return respond(TicketAnswer(ticket=ticket.value, expires_at=ticket.expires_at), 201)


ENDPOINTS = (
    Endpoint("GET", "/v1/health", health, "Whether the server answers.", {200: Health}, public=True),
    Endpoint("GET", "/v1/info", info, "What the server is and what is ready.", {200: Info}),
    Endpoint("GET", "/openapi.yaml", openapi, "This description.", {200: None}, media_type="application/yaml"),
    Endpoint(
        "POST",
        "/v1/stream-tickets",
        stream_ticket,
        "A single-use ticket (30 s) for one event stream, for clients that cannot send a header.",
        {201: TicketAnswer},
        body=TicketBody,
        problems=("not_found", "ambiguous_prefix"),
        is_fresh=True,
    ),
)
