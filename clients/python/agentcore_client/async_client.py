"""The asynchronous client: `AsyncClient` is the connection to a server, `AsyncSession` a handle on one conversation.

Thin on purpose: what is said on the wire is in `endpoints`, what the stream means in `frames`, `cursor` and
`prompts`, how it travels in `transport`. `client` has the same shape without `await`.
"""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack

import anyio

from agentcore.events import PermissionRequest, QueuedPrompt
from agentcore_client import endpoints
from agentcore_client.call import Call
from agentcore_client.cursor import Cursor, ManyCursor
from agentcore_client.discovery import find_server
from agentcore_client.errors import ApiError
from agentcore_client.frames import StreamEvent
from agentcore_client.prompts import OnPermissionAsync, PromptEvent, PromptWatch, as_answer, is_settled, shown
from agentcore_client.retry import CALL_RETRY, STREAM_RETRY, RetryPolicy
from agentcore_client.transport import AsyncTransport
from agentcore_client.values import (
    Accepted,
    Answer,
    Approval,
    BackgroundTask,
    Blob,
    Fork,
    GrantReport,
    Info,
    MessagePage,
    Outcome,
    PromptOptions,
    Rule,
    SessionPage,
    SessionState,
    Settings,
    Shown,
    Undo,
    Why,
)

T = TypeVar("T")


class AsyncClient:
    """A connection to one server. Close it, or use it in an `async with`."""

    def __init__(
        self, url: str, token: str, *, call_retry: RetryPolicy = CALL_RETRY, stream_retry: RetryPolicy = STREAM_RETRY
    ) -> None:
        self._transport = AsyncTransport(url, token, call_retry, stream_retry)

    @classmethod
    def connect(cls, folder: str | Path = ".") -> Self:
        """Connect to the running server that works on `folder`. Raises: NoServer."""
        server = find_server(folder)
        return cls(server.url, server.token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def health(self) -> bool:
        return await self.send(endpoints.health())

    async def info(self) -> Info:
        return await self.send(endpoints.info())

    async def rules(self) -> tuple[Rule, ...]:
        """The standing permission rules: of the user's settings, and of the loaded sessions."""
        return await self.send(endpoints.rules())

    async def revoke_rule(self, rule_id: str) -> None:
        """Take back a grant, or a rule that `always` wrote. Raises: ApiError `not_found`."""
        await self.send(endpoints.revoke_rule(rule_id))

    async def approvals(self) -> tuple[Approval, ...]:
        """The hooks and MCP servers of repositories that wait for a person, or were decided about."""
        return await self.send(endpoints.approvals())

    async def decide_approval(self, approval_id: str, *, allow: bool) -> None:
        """Let one of them run, or not, until its content changes. Raises: ApiError `not_found`."""
        await self.send(endpoints.decide_approval(approval_id, allow))

    async def create_session(self, cwd: str | Path | None = None, **settings: Unpack[Settings]) -> "AsyncSession":
        return await self._opened(endpoints.create_session(cwd, **settings))

    async def resume_session(
        self, which: str = "latest", *, takeover: bool = False, **settings: Unpack[Settings]
    ) -> "AsyncSession":
        """Load a session by its id, a unique prefix of it, or `latest`; `takeover` takes it from another server."""
        return await self._opened(endpoints.resume_session(which, takeover=takeover, **settings))

    async def continue_session(
        self, cwd: str | Path = ".", *, takeover: bool = False, **settings: Unpack[Settings]
    ) -> "AsyncSession":
        """Load the newest session of a folder; `takeover` takes it from another server."""
        return await self._opened(endpoints.continue_session(cwd, takeover=takeover, **settings))

    async def list_sessions(self, *, limit: int | None = None, cursor: str | None = None) -> SessionPage:
        return await self.send(endpoints.list_sessions(limit, cursor))

    def watch(self, *sessions: str, cursor: str | None = None, **shown: Unpack[Shown]) -> "AsyncWatch":
        """A handle on the events of these sessions, which are loaded, or of all of them, those that come included; asks
        nobody. `cursor` is where they go on."""
        return AsyncWatch(self._transport, sessions, cursor, shown)

    def session(self, session_id: str, *, cursor: int | None = None) -> "AsyncSession":
        """A handle on a session that is loaded already; asks nobody. `cursor` is where its events go on."""
        return AsyncSession(self._transport, session_id, cursor)

    async def send(self, call: Call[T]) -> T:
        """Make any call, also one that has no method here. Raises: ApiError, ConnectionLost."""
        return await self._transport.send(call)

    async def _opened(self, call: Call[SessionState]) -> "AsyncSession":
        state = await self.send(call)
        return AsyncSession(self._transport, state.id, state.last_seq)


class AsyncSession:
    """A handle on one session. One reader at a time; take a second handle for a second reader."""

    def __init__(self, transport: AsyncTransport, session_id: str, cursor: int | None = None) -> None:
        self.id = session_id
        self._transport = transport
        self._cursor = Cursor(cursor)

    @property
    def cursor(self) -> int | None:
        """The last event that the newest stream of this handle has handled; what `events` goes on after."""
        return self._cursor.seq

    async def get(self) -> SessionState:
        return await self._transport.send(endpoints.get_session(self.id))

    async def why(self) -> Why:
        """Why the session is not moving, since when, and what can be done about it."""
        return await self._transport.send(endpoints.why(self.id))

    async def patch(self, **settings: Unpack[Settings]) -> SessionState:
        return await self._transport.send(endpoints.patch_session(self.id, **settings))

    async def delete(self) -> None:
        """Cancel what runs and unload the session; its journal stays."""
        await self._transport.send(endpoints.delete_session(self.id))

    async def messages(self, *, after_seq: int | None = None, limit: int | None = None) -> MessagePage:
        return await self._transport.send(endpoints.messages(self.id, after_seq, limit))

    async def cancel(self) -> bool:
        """End the run now; False when none was running."""
        return await self._transport.send(endpoints.cancel(self.id))

    async def resume_run(self) -> Accepted:
        """Go on with a run that was suspended or cut off by a crash; `follow` what it returns."""
        return await self._transport.send(endpoints.resume_run(self.id))

    async def suspend(self) -> bool:
        """Let the run end `suspended` at its next border; `resume_run` goes on with it. False when none was running."""
        return await self._transport.send(endpoints.suspend(self.id))

    async def queue(self) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait for their run, the next one first; long texts are cut."""
        return await self._transport.send(endpoints.queue(self.id))

    async def reorder_queue(self, prompt_ids: Sequence[str]) -> tuple[QueuedPrompt, ...]:
        """Let these run first, in this order."""
        return await self._transport.send(endpoints.reorder_queue(self.id, prompt_ids))

    async def clear_queue(self) -> None:
        """Remove every prompt that waits."""
        await self._transport.send(endpoints.clear_queue(self.id))

    async def queued(self, prompt_id: str) -> QueuedPrompt:
        """A prompt that waits, with its whole text."""
        return await self._transport.send(endpoints.queued(self.id, prompt_id))

    async def edit_queued(self, prompt_id: str, text: str) -> QueuedPrompt:
        """Change the text of a prompt that waits."""
        return await self._transport.send(endpoints.edit_queued(self.id, prompt_id, text))

    async def remove_queued(self, prompt_id: str) -> None:
        """Let a prompt that waits never run."""
        await self._transport.send(endpoints.remove_queued(self.id, prompt_id))

    async def tasks(self) -> tuple[BackgroundTask, ...]:
        """The background tasks that run, and the last ones that have ended, in the order in which they began."""
        return await self._transport.send(endpoints.tasks(self.id))

    async def stop_task(self, task_id: str) -> None:
        """End a background task; one that has ended stays as it is. Raises: ApiError `not_found`."""
        await self._transport.send(endpoints.stop_task(self.id, task_id))

    async def answer_deferred(self, token: str, output: str, *, is_error: bool = False) -> None:
        """Give a deferred call its result; with the last one its run goes on."""
        await self._transport.send(endpoints.answer_deferred(self.id, token, output, is_error))

    async def clear(self) -> None:
        """Let the model start from nothing; the history stays readable."""
        await self._transport.send(endpoints.clear(self.id))

    async def undo(self, *, dry_run: bool = False) -> Undo:
        """Take back the file changes of the last run that made some, or only tell what that would do; again for the
        run before. Raises: ApiError `nothing_to_undo`."""
        return await self._transport.send(endpoints.undo(self.id, dry_run))

    async def compact(self) -> str:
        """Let a summary take the place of the conversation, and return it; takes a model call, while it is busy."""
        return await self._transport.send(endpoints.compact(self.id))

    async def fork(self, at: str | int | None = None, **settings: Unpack[Settings]) -> tuple["AsyncSession", Fork]:
        """Begin a session with a copy of this one's history: up to its end, or to a message by id or index.

        At a prompt it is a rewind: the copy ends just before it, and what is returned holds its text.
        """
        forked = await self._transport.send(endpoints.fork(self.id, at, **settings))
        return AsyncSession(self._transport, forked.id, forked.last_seq), forked

    async def export(self, form: Literal["jsonl", "markdown", "json"] = "jsonl") -> bytes:
        """The session as a file, without the secrets that are known as such."""
        return await self._transport.send(endpoints.export(self.id, form))

    async def trace(self) -> bytes:
        """What happened in the session, as one HTML page; with `trace` set also what was sent to the model."""
        return await self._transport.send(endpoints.trace(self.id))

    async def permissions(self) -> tuple[PermissionRequest, ...]:
        """The requests that wait for an answer."""
        return await self._transport.send(endpoints.permissions(self.id))

    async def answer(self, request_id: str, answer: Answer | bool) -> GrantReport | None:
        """Answer a request; a wide answer is reported on, unless the report was lost with its connection.

        Raises: ApiError `already_resolved` when somebody was faster.
        """
        said = answer if isinstance(answer, Answer) else Answer(allow=answer)
        return await self._transport.send(endpoints.answer(self.id, request_id, said), is_patient=True)

    async def upload(self, file: bytes | Path, media_type: str | None = None) -> Blob:
        """Hand in a picture, a PDF or a text for the attachments of a prompt; None: what its bytes say it is."""
        data = file if isinstance(file, bytes) else await anyio.Path(file).read_bytes()
        return await self._transport.send(endpoints.upload(self.id, data, media_type))

    async def submit(self, text: str, **options: Unpack[PromptOptions]) -> Accepted:
        """Hand in a prompt and return as soon as it is durable."""
        return await self._transport.send(endpoints.prompt(self.id, text, **options))

    async def prompt_and_wait(self, text: str, **options: Unpack[PromptOptions]) -> Outcome:
        """Hand in a prompt and wait for its end. Somebody else must answer its permission requests."""
        return await self._transport.send(endpoints.prompt_and_wait(self.id, text, **options), is_patient=True)

    async def prompt(
        self, text: str, *, on_permission: OnPermissionAsync | None = None, **options: Unpack[PromptOptions]
    ) -> AsyncGenerator[PromptEvent, None]:
        """Hand in a prompt and yield what happens until its own `done`. Sent when the first event is asked for."""
        accepted = await self.submit(text, **options)
        async with aclosing(self.follow(accepted, on_permission=on_permission)) as stream:
            async for event in stream:
                yield event

    async def follow(
        self, accepted: Accepted, *, after: int | None = None, on_permission: OnPermissionAsync | None = None
    ) -> AsyncGenerator[PromptEvent, None]:
        """Yield what happens to a prompt until its own `done`, from its beginning or from `after`."""
        cursor = self._cursor = Cursor(accepted.after_seq if after is None else after)
        watch = PromptWatch(accepted.prompt_id, cursor)
        async with aclosing(self._transport.events(endpoints.events(self.id), cursor)) as stream:
            async for event in stream:
                if (visible := shown(event)) is not None:
                    yield visible
                for request in watch.due(event):
                    await self._offer(request, on_permission)
                if watch.is_end(event):
                    cursor.handled(event)
                    return

    def events(self, after: int | None = None, **shown: Unpack[Shown]) -> AsyncGenerator[StreamEvent, None]:
        """Yield everything that happens, across lost connections, until the session is closed.

        Goes on after `after`, else after `cursor`, else with what is new. An event counts as handled when the next
        one is asked for. Raises: ApiError when the server refuses the stream; ConnectionLost when it stays away.
        """
        cursor = self._cursor = Cursor(self.cursor if after is None else after)
        return self._transport.events(endpoints.events(self.id, **shown), cursor)

    async def _offer(self, request: PermissionRequest, on_permission: OnPermissionAsync | None) -> None:
        """Ask the callback about a request and send what it says."""
        verdict = on_permission(request) if on_permission else None
        said = as_answer(await verdict if isinstance(verdict, Awaitable) else verdict, request)
        if said is None:
            return
        try:
            await self.answer(request.request_id, said)
        except ApiError as error:
            if not is_settled(error):
                raise


class AsyncWatch:
    """A handle on the events of many sessions. One reader at a time; take a second handle for a second reader."""

    def __init__(self, transport: AsyncTransport, sessions: Sequence[str], cursor: str | None, shown: Shown) -> None:
        self._transport = transport
        self._feed = endpoints.all_events(sessions, **shown)
        self._is_named = bool(sessions)
        self._cursor = ManyCursor(cursor, is_named=self._is_named)

    @property
    def cursor(self) -> str | None:
        """The last event of each session that was handled, in one string; what `events` goes on after."""
        return self._cursor.text

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield everything that happens, across lost connections, each event with its `session`.

        Goes on after `cursor`, else with what is new. An event counts as handled when the next one is asked for. Ends
        when the sessions that were named are closed. Raises: as `AsyncSession.events`.
        """
        cursor = self._cursor = ManyCursor(self.cursor, is_named=self._is_named)
        return self._transport.events(self._feed, cursor)
