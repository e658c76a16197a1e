"""The standing permission rules: what is in force, from where, and taking back what a person granted."""

from starlette.requests import Request
from starlette.responses import Response

from agentcore.session import StandingRule
from server.answers import RuleList
from server.hub import Hub
from server.problems import Problem
from server.routes.context import hub_of, no_content, respond
from server.routes.table import Endpoint


async def list_rules(request: Request) -> Response:
    return respond(RuleList(rules=tuple((await _rules(hub_of(request))).values())))


async def revoke_rule(request: Request) -> Response:
    """In force at once in all loaded sessions; durable before this answers."""
    hub, rule_id = hub_of(request), request.path_params["rule_id"]
    rule = (await _rules(hub)).get(rule_id)
    if rule is None:
        raise Problem("not_found", f"There is no standing rule {rule_id[:40]!r}. GET /v1/permissions/rules lists them.")
    if rule.session is not None:
        await _revoke_grant(hub, rule)
    else:
        await _remove(hub, rule)
    return no_content()


async def _revoke_grant(hub: Hub, rule: StandingRule) -> None:
    live = hub.find(rule.session or "")
    if live is None or not live.agent.revoke(rule.id):
        raise Problem("not_found", "The grant is gone: it ended with its session, or was taken back before.")
    await live.agent.log.sync()


async def _remove(hub: Hub, rule: StandingRule) -> None:
    """Take a rule out of its file, then out of every session that has read it."""
    try:
        was_there = await hub.app.remove_rule(rule)
    except OSError:
        raise Problem("storage_unavailable", "The settings could not be written, so nothing has changed.") from None
    if not was_there:
        text = f"The rule stands in {rule.source}, which only you change: take it out there. Nothing has changed."
        raise Problem("not_found", text)
    for live in hub:
        live.agent.drop_rule(rule.id)


async def _rules(hub: Hub) -> dict[str, StandingRule]:
    """Those of the user's own files, and all that loaded sessions have besides, by id."""
    found = [*await hub.app.standing_rules(), *(rule for live in hub for rule in live.agent.rules())]
    return {rule.id: rule for rule in found}


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/permissions/rules",
        list_rules,
        "The standing rules: of the user's own settings, and of the loaded sessions, with what was granted there.",
        {200: RuleList},
    ),
    Endpoint(
        "DELETE",
        "/v1/permissions/rules/{rule_id}",
        revoke_rule,
        "Take back a grant of a session, or an allow rule that `always` wrote; in force at once.",
        {204: None},
        problems=("not_found", "unprocessable", "storage_unavailable"),
    ),
)
