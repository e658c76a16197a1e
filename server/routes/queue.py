"""Prompts that wait for their run: look at them, change them, take them back."""

from starlette.requests import Request
from starlette.responses import Response

from agentcore.events import QueuedPrompt
from server.answers import QueueList
from server.bodies import read_body
from server.live import LiveSession
from server.routes.context import live_of, no_content, respond
from server.routes.table import Endpoint
from server.schemas import EditBody, ReorderBody


async def list_queue(request: Request) -> Response:
    return respond(QueueList(queue=(await live_of(request)).queue.shown()))


async def reorder_queue(request: Request) -> Response:
    body, live = await read_body(request, ReorderBody), await live_of(request)
    live.refuse_closed()
    live.queue.reorder(body.order)
    shown = live.queue.shown()
    await live.agent.log.sync()
    return respond(QueueList(queue=shown))


async def clear_queue(request: Request) -> Response:
    live = await live_of(request)
    live.refuse_closed()
    live.queue.clear()
    await live.agent.log.sync()
    return no_content()


async def get_queued(request: Request) -> Response:
    live = await live_of(request)
    return respond(await _looked_at(live, live.queue.get(request.path_params["prompt_id"])))


async def edit_queued(request: Request) -> Response:
    body, live = await read_body(request, EditBody), await live_of(request)
    live.refuse_closed()
    edited = live.queue.edit(request.path_params["prompt_id"], body.text)
    await live.agent.log.sync()
    return respond(await _looked_at(live, edited))


async def _looked_at(live: LiveSession, prompt: QueuedPrompt) -> QueuedPrompt:
    return prompt.model_copy(update={"text": await live.agent.looked_at(prompt.text)})


async def remove_queued(request: Request) -> Response:
    live = await live_of(request)
    live.refuse_closed()
    live.queue.remove(request.path_params["prompt_id"])
    await live.agent.log.sync()
    return no_content()


_FIND_PROBLEMS = ("not_found", "ambiguous_prefix")
_CHANGE_PROBLEMS = (*_FIND_PROBLEMS, "session_closed", "storage_unavailable")
_ALL = "/v1/sessions/{id}/queue"
_ONE = "/v1/sessions/{id}/queue/{prompt_id}"

ENDPOINTS = (
    Endpoint(
        "GET", _ALL, list_queue, "The prompts that wait for their run.", {200: QueueList}, problems=_FIND_PROBLEMS
    ),
    Endpoint(
        "PATCH",
        _ALL,
        reorder_queue,
        "Let some of them run before the others.",
        {200: QueueList},
        body=ReorderBody,
        problems=_CHANGE_PROBLEMS,
    ),
    Endpoint("DELETE", _ALL, clear_queue, "Remove all of them.", {204: None}, problems=_CHANGE_PROBLEMS),
    Endpoint(
        "GET", _ONE, get_queued, "One of them, with its whole text.", {200: QueuedPrompt}, problems=_FIND_PROBLEMS
    ),
    Endpoint(
        "PATCH",
        _ONE,
        edit_queued,
        "Change the text of one that has not begun.",
        {200: QueuedPrompt},
        body=EditBody,
        problems=(*_CHANGE_PROBLEMS, "session_busy"),
    ),
    Endpoint(
        "DELETE",
        _ONE,
        remove_queued,
        "Remove one that has not begun; whoever waits for it is told.",
        {204: None},
        problems=_CHANGE_PROBLEMS,
    ),
)
