"""Prompts and what ends them."""

from collections.abc import Sequence
from typing import assert_never

from starlette.requests import Request
from starlette.responses import Response

from agentcore.agent import RunResult
from agentcore.attachments import Attachments, PromptBlock, check_total
from agentcore.errors import BadRequest, Unprocessable
from agentcore.events import Error
from server.answers import CancelAnswer, PromptAccepted, PromptDone, RunError, SuspendAnswer
from server.bodies import read_body
from server.idempotency import submission_of
from server.live import LiveSession
from server.problems import Problem
from server.routes.context import hub_of, live_of, no_content, respond
from server.routes.table import Endpoint
from server.schemas import AttachedBlob, AttachedData, AttachedPath, Empty, PromptAttachment, PromptBody


async def prompt(request: Request) -> Response:
    """Accept a prompt: 202 when it is durable, or 200 at its own `done` with `wait`."""
    body = await read_body(request, PromptBody)
    live = await live_of(request)
    hub = hub_of(request)
    hub.refuse_draining()
    submission = submission_of(request)
    if submission is not None and (before := live.again(submission)) is not None:
        return await _answer(live, *before, wait=body.wait)
    text = body.text if body.text.strip() else ""
    if not (text or body.attachments):
        raise Problem("bad_request", "The prompt is empty: send some `text`.")
    attachments: tuple[PromptBlock, ...] = ()
    if body.attachments or body.output_schema is not None:
        live.check_prompt(body.when_busy)  # before work that may take seconds; asked again below, in one step
        if body.output_schema is not None:
            await live.agent.check_schema(body.output_schema)
        attachments = await _blocks(live, body.attachments)
        hub.refuse_draining()
    accepted = live.prompt(text, attachments, body.output_schema, submission, body.when_busy)
    return await _answer(live, accepted, wait=body.wait)


async def resume(request: Request) -> Response:
    """Go on with a run that the server's end interrupted."""
    await read_body(request, Empty)
    live = await live_of(request)
    hub_of(request).refuse_draining()
    return await _answer(live, live.resume_run(), wait=False)


async def cancel(request: Request) -> Response:
    await read_body(request, Empty)
    return respond(CancelAnswer(cancelled=(await live_of(request)).cancel()))


async def suspend(request: Request) -> Response:
    await read_body(request, Empty)
    return respond(SuspendAnswer(suspending=(await live_of(request)).suspend()))


async def clear(request: Request) -> Response:
    await read_body(request, Empty)
    live = await live_of(request)
    live.clear()
    await live.agent.log.sync()
    return no_content()


async def _blocks(live: LiveSession, attached: Sequence[PromptAttachment]) -> tuple[PromptBlock, ...]:
    """Everything that is attached, checked and durable. Raises: BadRequest, Unprocessable, StorageUnavailable."""
    blocks: list[PromptBlock] = []
    for number, one in enumerate(attached, 1):
        try:
            blocks.append(await _block(live.agent.attachments, one))
        except (BadRequest, Unprocessable) as error:
            raise Problem(error.code, f"Attachment {number} cannot be used: {error}") from error
    check_total(blocks)
    return tuple(blocks)


async def _block(attachments: Attachments, attached: PromptAttachment) -> PromptBlock:
    match attached:
        case AttachedBlob(blob=blob):
            return await attachments.of_blob(blob)
        case AttachedPath(path=path):
            return await attachments.of_path(path)
        case AttachedData(media_type=media_type, data=data):
            return await attachments.of_data(media_type, data)
        case _:
            assert_never(attached)


async def _answer(
    live: LiveSession, accepted: PromptAccepted, result: RunResult | None = None, *, wait: bool
) -> Response:
    """What a prompt is told; `result` is what it came to where it has ended before."""
    outcome = live.outcome_of(accepted.prompt_id) if wait and result is None else None
    await live.agent.log.sync()
    if not wait:
        return respond(accepted, 202)
    if outcome is not None:
        result = await outcome.wait()
    if result is None:
        raise Problem("draining", "The server stops. The prompt is kept and goes on when the session is loaded again.")
    return respond(_done(accepted, result))


def _done(accepted: PromptAccepted, result: RunResult) -> PromptDone:
    error = result.error
    return PromptDone(
        session=accepted.session,
        prompt_id=accepted.prompt_id,
        text=result.text,
        stop_reason=result.stop_reason,
        error=None if error is None else _error(error),
        usage=result.usage,
        cost_usd=result.cost_usd,
        structured=result.structured,
    )


def _error(error: Error) -> RunError:
    return RunError(code=error.code, text=error.text, retryable=error.retryable, retry_after=error.retry_after)


_FIND_PROBLEMS = ("not_found", "ambiguous_prefix")

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sessions/{id}/prompt",
        prompt,
        "Send a prompt: 202 when it is kept, or with `wait` 200 when it is done. `when_busy` says what becomes of it"
        " while a run is going on.",
        {200: PromptDone, 202: PromptAccepted},
        body=PromptBody,
        problems=(
            *_FIND_PROBLEMS,
            "session_busy",
            "session_suspended",
            "session_closed",
            "draining",
            "storage_unavailable",
            "unprocessable",
        ),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/resume",
        resume,
        "Go on with an interrupted or suspended run, without paying for its last model call again; else begin with the"
        " queue.",
        {202: PromptAccepted},
        body=Empty,
        problems=(
            *_FIND_PROBLEMS,
            "session_busy",
            "session_suspended",
            "nothing_to_resume",
            "session_closed",
            "draining",
            "storage_unavailable",
        ),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/cancel",
        cancel,
        "End the run at once; the partial text is kept, and the queue goes on.",
        {200: CancelAnswer},
        body=Empty,
        problems=(*_FIND_PROBLEMS, "storage_unavailable"),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/suspend",
        suspend,
        "Let the run end `suspended` at its next border; `resume` goes on with it.",
        {200: SuspendAnswer},
        body=Empty,
        problems=_FIND_PROBLEMS,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/clear",
        clear,
        "Begin a fresh context; the history stays readable.",
        {204: None},
        body=Empty,
        problems=(*_FIND_PROBLEMS, "session_busy", "session_closed", "storage_unavailable"),
    ),
)
