"""Sessions: list, create, load, look at, change, unload."""

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agentcore.app import App
from agentcore.events import SessionUpdated
from agentcore.session import Settings, Summary
from server.answers import SessionEntry, SessionList, SessionState, Why
from server.bodies import read_body, read_query
from server.hub import Hub
from server.live import LiveSession
from server.problems import Problem
from server.routes.context import hub_of, live_of, no_content, respond
from server.routes.table import Endpoint
from server.schemas import CreateSession, ListQuery, PatchSession, SessionSettings

_SETTINGS = tuple(SessionSettings.model_fields)
_CURSOR = re.compile(r"([0-9]{1,12}\.[0-9]{3}):(.+)")


async def list_sessions(request: Request) -> Response:
    query, hub = read_query(request, ListQuery), hub_of(request)
    summaries = await hub.app.summaries()
    if query.cursor is not None:
        at = next((i for i, one in enumerate(summaries) if _cursor(one) == query.cursor), None)
        summaries = summaries[at + 1 :] if at is not None else _older(summaries, query.cursor)
    page, rest = summaries[: query.limit], summaries[query.limit :]
    entries = tuple(_entry(hub, summary) for summary in page)
    next_cursor = _cursor(page[-1]) if rest else None
    return respond(SessionList(sessions=entries, next_cursor=next_cursor, unreadable=hub.app.unreadable_sessions))


async def create_session(request: Request) -> Response:
    body, hub = await read_body(request, CreateSession), hub_of(request)
    given = given_settings(body, hub.app)
    hub.app.validate(Settings(**given))
    folder = hub.app.work_folder(body.cwd)
    name = body.resume
    if name is not None and body.continue_:
        raise Problem("bad_request", "Give `resume` or `continue`, not both.")
    if body.continue_:
        name = await hub.app.newest_of(folder)
        if name is None:
            raise Problem("not_found", "There is no session of this folder yet. Create one without `continue`.")
    if name is None and body.takeover:
        raise Problem("bad_request", "`takeover` goes with `resume` or `continue`: a new session is held by nobody.")
    if name is None:
        settings = (await hub.app.defaults(folder)).with_given(given)
        hub.app.validate(settings)
        live = await hub.create(folder, settings)
        return respond(live.state(), 201)
    live, was_loaded = await hub.load(name, takeover=body.takeover)
    if given:
        await _change(live, given)
    return respond(live.state(), 200 if was_loaded else 201)


async def get_session(request: Request) -> Response:
    return respond((await live_of(request)).state())


async def why(request: Request) -> Response:
    """What the session waits for, since when, and what can be done about it. Where it waits for several things, the one
    that a person can answer comes first."""
    return respond((await live_of(request)).why())


async def patch_session(request: Request) -> Response:
    body, live = await read_body(request, PatchSession), await live_of(request)
    given = given_settings(body, hub_of(request).app)
    if not given:
        raise Problem("bad_request", f"Nothing to change: send at least one of {', '.join(_SETTINGS)}.")
    hub_of(request).app.validate(Settings(**given))
    await _change(live, given)
    return respond(live.state())


async def delete_session(request: Request) -> Response:
    await hub_of(request).close(await live_of(request), "deleted")
    return no_content()


def given_settings(body: SessionSettings, app: App) -> dict[str, Any]:
    """The settings that a body names; a model with its full name, which outlives the short one. Raises: BadRequest."""
    given = {name: value for name in _SETTINGS if (value := getattr(body, name)) is not None}
    if "model" in given:
        given["model"] = app.providers.full_name(given["model"])
    return given


async def _change(live: LiveSession, given: dict[str, Any]) -> None:
    """Apply validated settings; they are durable when this returns."""
    if "budget" in given:
        given = given | {"budget": given["budget"].over(live.agent.settings.budget)}
    live.update(SessionUpdated(**given, by="client"))
    await live.agent.log.sync()


def _entry(hub: Hub, summary: Summary) -> SessionEntry:
    live = hub.find(summary.id)
    state = None if live is None else live.state()
    return SessionEntry(
        id=summary.id,
        title=summary.title if state is None else state.title,
        cwd=summary.cwd,
        created=summary.created,
        modified=summary.modified,
        fork_of=summary.fork_of,
        loaded=live is not None,
        busy=state is not None and state.busy,
        waiting_for=None if state is None else state.waiting_for,
    )


def _cursor(summary: Summary) -> str:
    return f"{summary.modified:.3f}:{summary.id}"


def _older(summaries: list[Summary], cursor: str) -> list[Summary]:
    """Go on behind a cursor whose session has changed or gone since."""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise Problem("bad_request", "The cursor is not one that a listing gave: use `next_cursor` as it is.")
    key = (float(match[1]), match[2])
    return [one for one in summaries if (one.modified, one.id) < key]


_LOAD_PROBLEMS = (
    "not_found",
    "ambiguous_prefix",
    "session_opening",
    "session_locked",
    "mode_not_allowed",
    "unprocessable",
    "journal_damaged",
    "storage_unavailable",
    "draining",
)
_FIND_PROBLEMS = ("not_found", "ambiguous_prefix")

ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions",
        list_sessions,
        "All sessions, loaded or not, the one that changed last first.",
        {200: SessionList},
        query=ListQuery,
    ),
    Endpoint(
        "POST",
        "/v1/sessions",
        create_session,
        "Begin a session, or load one and apply the settings given with it; 200 when it was loaded already.",
        {200: SessionState, 201: SessionState},
        body=CreateSession,
        problems=_LOAD_PROBLEMS,
    ),
    Endpoint(
        "GET", "/v1/sessions/{id}", get_session, "A loaded session.", {200: SessionState}, problems=_FIND_PROBLEMS
    ),
    Endpoint("GET", "/v1/sessions/{id}/why", why, "Why a session is not moving.", {200: Why}, problems=_FIND_PROBLEMS),
    Endpoint(
        "PATCH",
        "/v1/sessions/{id}",
        patch_session,
        "Change settings: mode at once, model and effort from the next run.",
        {200: SessionState},
        body=PatchSession,
        problems=(*_FIND_PROBLEMS, "mode_not_allowed", "session_closed", "storage_unavailable"),
    ),
    Endpoint(
        "DELETE",
        "/v1/sessions/{id}",
        delete_session,
        "Cancel the run and unload the session; its journal stays.",
        {204: None},
        problems=_FIND_PROBLEMS,
    ),
)
