"""Codes, statuses and the shape of every failure."""

import json
import logging
from collections.abc import Awaitable, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentcore import errors
from server import problems
from server.problems import HANDLERS, INTERNAL, Problem, answer, edge, problem_of

pytestmark = pytest.mark.anyio

PROMISED = {
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden_host": 403,
    "forbidden_origin": 403,
    "not_found": 404,
    "session_busy": 409,
    "already_resolved": 409,
    "session_opening": 409,
    "stale_request": 409,
    "permission_expired": 410,
    "session_closed": 410,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "unprocessable": 422,
    "session_locked": 423,
    "ambiguous_prefix": 409,
    "nothing_to_resume": 409,
    "session_suspended": 409,
    "nothing_to_undo": 400,
    "mode_not_allowed": 403,
    "method_not_allowed": 405,
    "draining": 503,
    "storage_unavailable": 507,
    "internal": 500,
}


@pytest.mark.parametrize(("code", "status"), PROMISED.items())
def test_every_promised_code_has_its_status(code: str, status: int) -> None:
    assert Problem(code, "x").status == status


def all_errors(base: type[errors.AgentError] = errors.AgentError) -> list[type[errors.AgentError]]:
    return [base, *(error for child in base.__subclasses__() for error in all_errors(child))]


def test_every_error_of_the_core_has_a_code_that_clients_know() -> None:
    codes = {problems.SAME_AS.get(error.code, error.code) for error in all_errors()}
    assert codes <= set(problems.STATUS)


TRANSLATED = {
    "not found": (errors.NotFound("No such session."), 404, {"error": "No such session.", "code": "not_found"}),
    "prefix": (
        errors.AmbiguousPrefix("Two fit.", ["a1", "a2"]),
        409,
        {"error": "Two fit.", "code": "ambiguous_prefix", "details": {"candidates": ["a1", "a2"]}},
    ),
    "taken over": (errors.TakenOver("Gone."), 423, {"error": "Gone.", "code": "session_locked"}),
    "provider": (
        errors.ProviderError("rate_limit", "Slow down.", retry_after_s=3.0),
        502,
        {"error": "Slow down.", "code": "provider", "details": {"kind": "rate_limit", "retry_after_s": 3.0}},
    ),
    "half a pair": (Problem("bad_request", "No \ud800."), 400, {"error": "No ?.", "code": "bad_request"}),
    "unknown code": (Problem("made_up", "secret"), 500, {"error": INTERNAL, "code": "internal"}),
    "untyped": (errors.AgentError("secret"), 500, {"error": INTERNAL, "code": "internal"}),
    "unexpected": (KeyError("secret"), 500, {"error": INTERNAL, "code": "internal"}),
}


@pytest.mark.parametrize(("error", "status", "body"), TRANSLATED.values(), ids=TRANSLATED.keys())
def test_an_exception_becomes_an_answer(error: Exception, status: int, body: object) -> None:
    response = answer(problem_of(error))
    assert (response.status_code, json.loads(bytes(response.body))) == (status, body)
    assert response.headers["content-type"] == "application/json"


def test_the_stack_of_an_unexpected_error_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        problem_of(KeyError("what broke"))
    assert "what broke" in caplog.text


HEADERS = {
    "token": (Problem("unauthorized", "x"), "www-authenticate", "Bearer"),
    "draining": (Problem("draining", "x"), "retry-after", "5"),
    "own": (Problem("draining", "x", headers={"Retry-After": "9"}), "retry-after", "9"),
}


@pytest.mark.parametrize(("problem", "name", "value"), HEADERS.values(), ids=HEADERS.keys())
def test_headers_that_belong_to_a_code_are_sent(problem: Problem, name: str, value: str) -> None:
    assert answer(problem).headers[name] == value


def application(handler: Callable[[Request], Awaitable[Response]]) -> httpx.AsyncClient:
    app = Starlette(routes=[Route("/here", handler, methods=["GET"])], exception_handlers=dict(HANDLERS))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def fail(_request: Request) -> Response:
    raise RuntimeError("/home/somebody/secret")


async def test_the_router_answers_in_the_same_shape() -> None:
    async with application(fail) as http:
        missing, wrong = await http.get("/nowhere"), await http.post("/here")
    assert (missing.status_code, missing.json()) == (404, {"error": problems.UNKNOWN_PATH, "code": "not_found"})
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert "GET" in wrong.headers["allow"]


@pytest.mark.parametrize("handler", [fail, edge(fail)], ids=["bare", "edge"])
async def test_an_unexpected_failure_says_nothing_to_the_client(
    handler: Callable[[Request], Awaitable[Response]],
) -> None:
    async with application(handler) as http:
        response = await http.get("/here")
    assert (response.status_code, response.json()) == (500, {"error": INTERNAL, "code": "internal"})


async def test_the_edge_passes_an_answer_through() -> None:
    async def fine(_request: Request) -> Response:
        return Response("fine")

    async with application(edge(fine)) as http:
        assert (await http.get("/here")).text == "fine"
