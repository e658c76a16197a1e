"""The Python client and the real server: what the README promises, over a real socket."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from anyio import fail_after

from agentcore.events import Done, PermissionRequest, PermissionResolved, SessionClosed, UserMessage
from agentcore.messages import Image, Text
from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from agentcore_client.errors import ApiError
from agentcore_client.frames import StreamEvent, UnknownEvent, seq_of
from agentcore_client.prompts import PromptEvent
from agentcore_client.values import Answer
from tests.daemon import Daemon
from tests.pictures import picture

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


class ReaderFailed(Exception):
    """What a consumer raises in the middle of an event."""


def allow(request: PermissionRequest) -> bool:
    return True


def test_five_lines_are_enough(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCORE_STATE_DIR", str(daemon.state_dir))
    monkeypatch.chdir(daemon.cwd)
    events: list[PromptEvent] = []
    with Client.connect() as client:
        session = client.create_session(cwd=".")
        for event in session.prompt("fix the tests", on_permission=lambda request: True):
            events.append(event)  # noqa: PERF402 - written as a newcomer would
        history = session.messages()
    end = events[-1]
    assert isinstance(end, Done)
    assert end.stop_reason == "end_turn"
    assert history.last_seq >= end.seq
    assert not [event for event in events if isinstance(event, UnknownEvent)]
    assert (daemon.cwd / "agentcore-demo.txt").read_text() == "Shopping list\n- pears\n- bread\nHello from the demo\n"


async def test_a_picture_goes_with_a_prompt(daemon: Daemon, tmp_path: Path) -> None:
    data = picture(size=(9, 7))
    (tmp_path / "a.png").write_bytes(data)
    (daemon.cwd / "notes.md").write_text("# Notes")

    with fail_after(PATIENCE_S), Client(daemon.url, daemon.token) as client:
        session = client.create_session(daemon.cwd)
        kept = session.upload(tmp_path / "a.png")
        assert (kept.media_type, kept.size) == ("image/png", len(data))
        session.submit("What is it?", attachments=[kept.attachment, {"path": "notes.md"}])
        session.delete()
        async with AsyncClient(daemon.url, daemon.token) as other:
            again = await other.resume_session(session.id)
            kept = await again.upload(tmp_path / "a.png")
            assert kept == await again.upload(data)
            async with aclosing(again.prompt("", attachments=[kept.attachment])) as stream:
                message = await anext(event async for event in stream if isinstance(event, UserMessage))
            said = [message.content for message in (await again.messages()).messages if message.role == "user"]
    image = Image(blob=kept.blob, media_type="image/png", size_bytes=len(data), width=9, height=7)
    assert said[0] == (image, Text(text="[Attached file: notes.md]\n# Notes"), Text(text="What is it?"))
    assert (said[-1], message.content, message.display_text) == ((image,), (image,), "")


async def test_second_reader_sees_the_same_events(daemon: Daemon) -> None:
    seen: list[StreamEvent] = []

    async def watch(session_id: str) -> None:
        async with aclosing(client.session(session_id, cursor=0).events()) as stream:
            seen.extend([event async for event in stream if seq_of(event)])

    with fail_after(PATIENCE_S):
        async with AsyncClient(daemon.url, daemon.token) as client, anyio.create_task_group() as group:
            session = await client.create_session(daemon.cwd)
            group.start_soon(watch, session.id)
            own = [event async for event in session.prompt("go", on_permission=allow)]
            await session.delete()
    assert seen[: len(own)] == own
    assert isinstance(seen[-1], SessionClosed)
    assert [seq_of(event) for event in seen] == list(range(seq_of(seen[0]), seq_of(seen[-1]) + 1))


async def test_refused_call_is_told_to_the_model(daemon: Daemon) -> None:
    with fail_after(PATIENCE_S):
        async with AsyncClient(daemon.url, daemon.token) as client:
            session = await client.create_session(daemon.cwd)

            async def refuse(request: PermissionRequest) -> Answer:
                return Answer(allow=False, reason="not on a Sunday")

            events = [event async for event in session.prompt("go", on_permission=refuse)]
    resolved = [event for event in events if isinstance(event, PermissionResolved)]
    assert resolved
    assert {(event.resolution, event.reason) for event in resolved} == {("denied", "not on a Sunday")}
    assert not (daemon.cwd / "agentcore-demo.txt").exists()


async def test_request_and_cursor_survive_the_death_of_server_and_client(daemon: Daemon) -> None:
    before: list[PromptEvent] = []
    with fail_after(PATIENCE_S):
        async with AsyncClient(daemon.url, daemon.token) as client:
            session = await client.create_session(daemon.cwd)
            with pytest.raises(ReaderFailed):
                await read_to_request(client.session(session.id).prompt("go"), before)
    request = before.pop()  # shown, but not handled
    daemon.restart()
    with fail_after(PATIENCE_S):
        async with AsyncClient(daemon.url, daemon.token) as client:
            session = await client.resume_session(session.id)
            accepted = await session.resume_run()
            stream = session.follow(accepted, after=before[-1].seq, on_permission=allow)
            after = [event async for event in stream]
    assert request in after
    assert isinstance(after[-1], Done)
    assert not {event.seq for event in before} & {event.seq for event in after}


async def read_to_request(stream: AsyncGenerator[PromptEvent, None], into: list[PromptEvent]) -> None:
    async with aclosing(stream):
        async for event in stream:
            into.append(event)
            if isinstance(event, PermissionRequest):
                raise ReaderFailed


async def test_session_that_is_not_loaded_is_an_api_error(daemon: Daemon) -> None:
    with fail_after(PATIENCE_S):
        async with AsyncClient(daemon.url, daemon.token) as client:
            with pytest.raises(ApiError) as caught:
                await anext(client.session("20200101-000000-aaaaaa").events())
    assert caught.value.status == 404
