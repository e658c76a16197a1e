"""What goes on in the background of a session: looked at, and ended."""

from starlette.requests import Request
from starlette.responses import Response

from server.answers import TaskList
from server.routes.context import live_of, no_content, respond
from server.routes.table import Endpoint


async def list_tasks(request: Request) -> Response:
    return respond(TaskList(tasks=(await live_of(request)).agent.tasks))


async def stop_task(request: Request) -> Response:
    live = await live_of(request)
    await live.stop_task(request.path_params["task_id"])
    await live.agent.log.sync()
    return no_content()


_FIND_PROBLEMS = ("not_found", "ambiguous_prefix")

ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/tasks",
        list_tasks,
        "The background tasks that run, and the last ones that have ended.",
        {200: TaskList},
        problems=_FIND_PROBLEMS,
    ),
    Endpoint(
        "DELETE",
        "/v1/sessions/{id}/tasks/{task_id}",
        stop_task,
        "End a background task and all that it started; one that has ended already stays as it is, and one that does"
        " not end within seconds is `stopping` until it does.",
        {204: None},
        problems=(*_FIND_PROBLEMS, "session_closed", "storage_unavailable"),
    ),
)
