"""A prompt from its submission to its own `done`, and the permission callback on the way."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from anyio import fail_after
from anyio.lowlevel import checkpoint

from agentcore.events import Done, Notice, PermissionRequest, PermissionResolved, SessionClosed, UserMessage
from agentcore.messages import Text
from agentcore.usage import Usage
from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client, Session
from agentcore_client.errors import ApiError
from agentcore_client.prompts import PromptEvent, Verdict
from agentcore_client.values import Accepted, Answer
from tests.clients.unruly import SESSION, Connection, Unruly


@pytest.fixture
def session(client: Client) -> Session:
    return client.session(SESSION)


def request(number: int) -> PermissionRequest:
    return PermissionRequest(
        request_id=f"perm-{number}",
        kind="tool",
        call_id=f"call-{number}",
        tool_name="shell",
        input={"command": "make"},
        digest=f"digest-{number}",
    )


def done(prompt_id: str | None) -> Done:
    return Done(run_id="run", prompt_id=prompt_id, stop_reason="end_turn", text="yes", usage=Usage(), turns=1)


def user(prompt_id: str) -> UserMessage:
    return UserMessage(id="m", prompt_id=prompt_id, content=(Text(text="hi"),))


def resolve(unruly: Unruly, number: int) -> None:
    unruly.open_requests.pop(f"perm-{number}", None)
    unruly.emit(PermissionResolved(request_id=f"perm-{number}", call_id=f"call-{number}", resolution="allowed"))


def ask_then_finish(unruly: Unruly) -> None:
    """Make the session ask once per prompt and finish when it is answered."""

    def on_prompt(unruly: Unruly, prompt_id: str) -> None:
        unruly.emit(user(prompt_id))
        unruly.emit(request(1))

    def on_answer(unruly: Unruly, request_id: str, body: Any) -> None:
        resolve(unruly, 1)
        unruly.emit(done("prompt_1"))

    unruly.on_prompt, unruly.on_answer = on_prompt, on_answer


class ReaderFailed(Exception):
    """What a consumer raises in the middle of an event."""


def fail_at(stream: Generator[PromptEvent, None, None], kind: str) -> None:
    with closing(stream):
        for event in stream:
            if event.type == kind:
                raise ReaderFailed


def kinds(events: list[PromptEvent]) -> list[str]:
    return [event.type for event in events]


def answers(unruly: Unruly) -> list[Any]:
    return [seen.body for seen in unruly.seen if "/permissions/" in seen.path]


WHOLE = ["user_message", "permission_request", "permission_resolved", "done"]


def test_prompt_yields_its_events_and_asks_the_callback(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)
    asked: list[str] = []

    def on_permission(request: PermissionRequest) -> bool:
        asked.append(request.request_id)
        return True

    unruly.emit(done("prompt_0"))
    events = list(session.prompt("fix the tests", on_permission=on_permission))
    assert kinds(events) == WHOLE
    assert asked == ["perm-1"]
    assert answers(unruly) == [{"allow": True, "digest": "digest-1"}]
    assert session.cursor == events[-1].seq


@pytest.mark.parametrize(
    ("verdict", "body"),
    [
        (False, {"allow": False, "digest": "digest-1"}),
        (Answer(allow=False, reason="no"), {"allow": False, "reason": "no", "digest": "digest-1"}),
        (
            Answer(allow=True, always=True, scope="session"),
            {"allow": True, "always": True, "scope": "session", "digest": "digest-1"},
        ),
    ],
)
def test_verdict_is_sent_with_the_digest_of_what_was_shown(
    unruly: Unruly, session: Session, verdict: Verdict, body: dict[str, Any]
) -> None:
    ask_then_finish(unruly)
    assert kinds(list(session.prompt("go", on_permission=lambda request: verdict))) == WHOLE
    assert answers(unruly) == [body]


@pytest.mark.parametrize("options", [{}, {"on_permission": lambda request: None}])
def test_request_can_be_left_to_somebody_else(unruly: Unruly, session: Session, options: dict[str, Any]) -> None:
    ask_then_finish(unruly)
    events: list[PromptEvent] = []
    with closing(session.prompt("go", **options)) as stream:
        for event in stream:
            events.append(event)
            if isinstance(event, PermissionRequest):
                unruly.on_answer(unruly, "perm-1", None)
    assert kinds(events) == WHOLE
    assert answers(unruly) == []


def test_losing_the_race_for_an_answer_is_fine(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)

    def too_late(request: PermissionRequest) -> bool:
        unruly.open_requests.clear()
        unruly.on_answer(unruly, "perm-1", None)
        return False

    assert kinds(list(session.prompt("go", on_permission=too_late))) == WHOLE
    assert len(answers(unruly)) == 1


def test_refused_answer_is_raised(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)
    refusal = {"error": "it changed", "code": "stale_request"}
    unruly.replies[f"POST /v1/sessions/{SESSION}/permissions/perm-1"] = (409, refusal)
    with pytest.raises(ApiError) as caught:
        list(session.prompt("go", on_permission=lambda request: True))
    assert caught.value.code == "stale_request"


def test_request_that_was_pending_before_is_offered(unruly: Unruly, session: Session) -> None:
    def on_answer(unruly: Unruly, request_id: str, body: Any) -> None:
        resolve(unruly, 7)
        unruly.emit(done("prompt_1"))

    unruly.emit(request(7))
    unruly.on_answer = on_answer
    events = list(session.prompt("go", on_permission=lambda request: True))
    assert kinds(events) == ["permission_resolved", "done"]
    assert answers(unruly) == [{"allow": True, "digest": "digest-7"}]


def test_request_is_asked_about_after_it_was_shown(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)
    told: list[str] = []

    def on_permission(request: PermissionRequest) -> bool:
        told.append("asked")
        return True

    for event in session.prompt("go", on_permission=on_permission):
        told.append(event.type)  # noqa: PERF401 - one by one, to see what the callback is told in between
    assert told == [*WHOLE[:2], "asked", *WHOLE[2:]]


def test_request_that_was_answered_before_the_replay_is_not_offered(unruly: Unruly, session: Session) -> None:
    def on_prompt(unruly: Unruly, prompt_id: str) -> None:
        unruly.emit(request(1))
        resolve(unruly, 1)
        unruly.emit(done(prompt_id))

    unruly.on_prompt = on_prompt
    asked: list[PermissionRequest] = []
    events = list(session.prompt("go", on_permission=asked.append))
    assert kinds(events) == ["permission_request", "permission_resolved", "done"]
    assert asked == []


def test_callback_is_asked_once_across_reconnects(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)
    unruly.script = [Connection(goodbye=b": cut\n")] * 3
    asked: list[str] = []

    def later(request: PermissionRequest) -> None:
        asked.append(request.request_id)

    with closing(session.prompt("go", on_permission=later)) as stream:
        assert kinds(list(islice(stream, 2))) == WHOLE[:2]
        unruly.script = [Connection(goodbye=b": cut\n")] * 2
        finish_when(lambda: len(unruly.streams()) >= 3, unruly)
        assert kinds(list(stream)) == WHOLE[2:]
    assert asked == ["perm-1"]
    assert len(unruly.streams()) >= 3


def finish_when(condition: Callable[[], bool], unruly: Unruly) -> None:
    """Have the session answer itself once the condition holds, seen at the next connection."""
    body = unruly.body

    def watched(after: int | None, connection: Connection) -> Iterator[bytes]:
        if condition() and unruly.open_requests:
            unruly.on_answer(unruly, "perm-1", None)
        return body(after, connection)

    unruly.body = watched  # type: ignore[method-assign]  # one test looks on


def test_done_of_another_prompt_does_not_end_it(unruly: Unruly, session: Session) -> None:
    unruly.on_prompt = lambda unruly, prompt_id: [unruly.emit(done(name)) for name in ("other", prompt_id)]
    events = list(session.prompt("go", when_busy="queue"))
    assert [event.prompt_id for event in events if isinstance(event, Done)] == ["other", "prompt_1"]
    assert unruly.seen[0].body == {"text": "go", "when_busy": "queue"}


def test_steering_prompt_ends_with_the_run_that_took_it_in(unruly: Unruly, session: Session) -> None:
    def on_prompt(unruly: Unruly, prompt_id: str) -> None:
        unruly.emit(user(prompt_id))
        unruly.emit(done("the first"))

    unruly.on_prompt = on_prompt
    assert kinds(list(session.prompt("and faster", when_busy="steer"))) == ["user_message", "done"]


def test_closed_session_ends_the_prompt_without_an_error(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)

    def close(request: PermissionRequest) -> None:
        unruly.emit(SessionClosed(reason="deleted"))

    assert kinds(list(session.prompt("go", on_permission=close)))[-1] == "session_closed"


def test_prompt_can_be_followed_further_after_the_reader_failed(unruly: Unruly, session: Session) -> None:
    ask_then_finish(unruly)
    accepted = session.submit("go")
    with pytest.raises(ReaderFailed):
        fail_at(session.follow(accepted), "permission_request")
    rest = list(session.follow(accepted, after=session.cursor, on_permission=lambda request: True))
    assert kinds(rest) == WHOLE[1:]


def test_accepted_prompt_can_be_kept_as_json() -> None:
    accepted = Accepted(session="s", prompt_id="p", after_seq=3)
    assert Accepted.model_validate_json(accepted.model_dump_json()) == accepted


@pytest.mark.anyio
async def test_async_prompt_awaits_its_callback(unruly: Unruly, async_client: AsyncClient) -> None:
    ask_then_finish(unruly)

    async def on_permission(request: PermissionRequest) -> Answer:
        await checkpoint()
        return Answer(allow=True, reason="fine")

    with fail_after(5):
        session = async_client.session(SESSION)
        events = [event async for event in session.prompt("go", on_permission=on_permission)]
    assert kinds(events) == WHOLE
    assert answers(unruly) == [{"allow": True, "reason": "fine", "digest": "digest-1"}]


@pytest.mark.anyio
async def test_async_prompt_takes_a_plain_callback_and_survives_cuts(unruly: Unruly, async_client: AsyncClient) -> None:
    ask_then_finish(unruly)
    unruly.script = [Connection(cut_at=cut_at, ending="reset") for cut_at in (10, 400, 700)]
    unruly.emit(Notice(level="info", code="c", text="before"))
    with fail_after(5):
        session = async_client.session(SESSION)
        events = [event async for event in session.prompt("go", on_permission=lambda request: True)]
    assert kinds(events) == WHOLE
    assert len(unruly.streams()) >= 3
    assert session.cursor == events[-1].seq
