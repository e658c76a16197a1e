"""A loaded session: its agent, its bus, its pending requests and its phase.

Every state change is a plain function, so every race is decided by who was called first. The supervisor task is the
one thing that takes time. Promise: `status`, the busy flag and the cancel handle change in one step.
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from agentcore.agent import Agent, RunResult
from agentcore.errors import StorageUnavailable
from agentcore.events import (
    Partial,
    PermissionRequest,
    PermissionResolved,
    Resolution,
    SessionClosed,
    SessionUpdated,
    Status,
)
from agentcore.ports import Answer, Ask, Clock
from agentcore.replies import Reply
from server import frames
from server.bus import Bus
from server.pending import Pending, Row
from server.phases import NotNow, Phase, Signal, next_phase
from server.problems import Problem
from server.schemas import AnswerBody, PromptAccepted, SessionState, Snapshot

logger = logging.getLogger(__name__)

UNATTENDED = "unattended"
"""Who answered when nobody was there to."""

_NOT_NOW = {
    Phase.RUNNING: ("session_busy", "A run is going on. Wait for its `done`, or cancel it first."),
    Phase.CLOSING: ("session_closed", "The session is being closed. Load it again with POST /v1/sessions."),
    Phase.CLOSED: ("session_closed", "The session is closed. Load it again with POST /v1/sessions."),
}


class LiveSession:
    """Satisfies the Asker port for its own agent; `bind` gives it the agent right after both are made."""

    agent: Agent
    bus: Bus
    _pending: Pending

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._phase = Phase.IDLE
        self._waiters: dict[str, Reply[RunResult | None]] = {}
        self._idle = anyio.Event()

    def bind(self, agent: Agent) -> None:
        history = agent.history
        self.agent = agent
        self.bus = bus = Bus(agent.log.last_seq)
        agent.log.listen(lambda seq, kind, line: bus.publish(seq, frames.frame(seq, kind, line)))
        self._pending = Pending(history.pending.values(), history.resolved, history.requests)
        self._phase = Phase.IDLE if agent.open_run is None else Phase.INTERRUPTED

    # --- what it is ---

    @property
    def id(self) -> str:
        return self.agent.id

    @property
    def is_busy(self) -> bool:
        return self._phase in (Phase.RUNNING, Phase.CLOSING)

    @property
    def is_closing(self) -> bool:
        """It takes nothing any more, though it may still be in the hub."""
        return self._phase in (Phase.CLOSING, Phase.CLOSED)

    @property
    def waits_for_person(self) -> bool:
        return len(self._pending) > 0

    @property
    def permissions(self) -> tuple[PermissionRequest, ...]:
        return self._pending.requests

    def state(self) -> SessionState:
        agent, settings = self.agent, self.agent.settings
        provider, _, model = agent.model.partition("/")
        kinds = {request.kind for request in self._pending.requests}
        return SessionState(
            id=agent.id,
            title=settings.title,
            cwd=str(agent.cwd),
            provider=provider,
            model=model,
            effort=settings.effort,
            mode=settings.mode,
            unattended=settings.unattended,
            busy=self.is_busy,
            waiting_for=None if not kinds else "question" if kinds == {"question"} else "permission",
            last_seq=self.bus.head,
            oldest_seq=self.bus.oldest,
            usage=agent.history.ledger.total,
            pending_permissions=len(self._pending),
            interrupted=self._phase is Phase.INTERRUPTED,
            created=agent.history.meta.created,
            modified=round(agent.log.last_ts, 3),
        )

    def partial(self) -> Partial | None:
        """The message being streamed; belongs to the bus head of the same step."""
        message = self.agent.partial
        return None if message is None else Partial(seq=self.bus.head, message=message)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            last_seq=self.bus.head, session=self.state(), permissions=self.permissions, partial=self.partial()
        )

    # --- prompts ---

    def prompt(self, text: str) -> PromptAccepted:
        """Claim the session and hand `text` to its supervisor. Raises: Problem, StorageUnavailable."""
        following = self._after(Signal.CLAIM)
        if self._phase is Phase.INTERRUPTED:
            self._abandon()
        after_seq = self.bus.head
        prompt = self.agent.accept(text)
        self._phase = following
        self._start()
        return PromptAccepted(session=self.id, prompt_id=prompt.prompt_id, after_seq=after_seq)

    def resume_run(self) -> PromptAccepted:
        """Go on with an interrupted run. Raises: Problem `nothing_to_resume` or `session_busy`."""
        following = self._after(Signal.CLAIM)
        run = self.agent.open_run
        if self._phase is not Phase.INTERRUPTED or run is None:
            raise Problem("nothing_to_resume", "No run of this session is interrupted. Send a prompt instead.")
        after_seq = self.bus.head
        self._phase = following
        self._start()
        return PromptAccepted(session=self.id, prompt_id=run.prompt.prompt_id, after_seq=after_seq)

    def outcome_of(self, prompt_id: str) -> Reply[RunResult | None]:
        """What a prompt that is going on comes to; None when the server stops before its end."""
        return self._waiters.setdefault(prompt_id, Reply())

    def cancel(self) -> bool:
        """End the run at once: its requests are resolved `cancelled` in the same step."""
        if self._phase is Phase.INTERRUPTED:
            self._abandon()
            self._phase = self._after(Signal.ABANDON)
            return True
        if self._phase is not Phase.RUNNING:
            return False
        self._resolve_all("cancelled")
        self.agent.interrupt()
        return True

    # --- settings ---

    def update(self, change: SessionUpdated) -> None:
        self._refuse_closed()
        self.agent.update(change)

    def clear(self) -> None:
        """Begin a fresh context. Raises: Problem `session_busy`."""
        self._refuse_closed()
        if self._phase is Phase.RUNNING:
            raise Problem(*_NOT_NOW[Phase.RUNNING])
        if self._phase is Phase.INTERRUPTED:
            self.cancel()
        self.agent.clear()

    # --- permission requests ---

    async def ask(self, question: Ask) -> Answer:
        """Bring a question to whoever answers first; see the Asker port."""
        answered = self.agent.history.answered.pop(question.call.id, None)
        if answered is not None and answered.resolution in ("allowed", "denied"):
            return _answer_of(answered)  # answered before the process stopped
        row = self._pending.of_call(question.call.id, question.digest) or self._open(question)
        if self.agent.settings.unattended == "deny":
            reason = "nobody is there to answer: the session runs unattended"
            denied = _resolved(row, "denied", answered_by=UNATTENDED, reason=reason)
            self._resolve(row, denied, _answer_of(denied))
        expires_at = row.request.expires_at
        with anyio.move_on_after(None if expires_at is None else max(0.0, expires_at - self._clock.now())):
            return await row.reply.wait()
        if not row.reply.is_resolved:
            self._resolve(row, _resolved(row, "expired"), Answer(allow=False, expired=True))
        return await row.reply.wait()

    def answer(self, request_id: str, body: AnswerBody) -> str | None:
        """Resolve a request; the first answer wins. Returns the rule that is now in force, if one was asked for.

        Raises: Problem; StorageUnavailable, and then the request is open as before.
        """
        self._refuse_closed()
        row = self._pending.get(request_id)
        scope = body.scope or ("project" if body.always else "once")
        _check_answer(row.request, body)
        if body.updated_input is not None:
            self.agent.checked_input(row.request.tool_name, row.request.call_id, body.updated_input)
        rule = None
        if body.allow and scope != "once" and row.request.suggested_rules:
            rule = row.request.suggested_rules[0]
        mode = (body.mode or "default") if body.allow and row.request.kind == "plan" else None
        resolved = _resolved(
            row,
            "allowed" if body.allow else "denied",
            answered_by="client",
            scope=scope if body.allow else None,
            reason=body.reason,
            mode=mode,
            answer=body.answer,
            updated_input=body.updated_input,
        )
        self._resolve(row, resolved, _answer_of(resolved))
        if rule is not None:
            self.agent.grant(row.request.call_id, rule, settled=scope != "session")
        if mode is not None:
            self.agent.update(SessionUpdated(mode=mode, by=request_id))
        if self._phase is Phase.INTERRUPTED and not len(self._pending):
            self._phase = self._after(Signal.CLAIM)
            self._start()
        return rule

    # --- the end ---

    async def close(self, reason: str) -> None:
        """Cancel the run, tell every reader, and let go of the journal. May be called twice."""
        if self._phase is Phase.RUNNING:
            self.cancel()
        self._phase = self._after(Signal.CLOSE)
        while self._phase is not Phase.CLOSED:
            await self._idle.wait()
        self.finish(lambda: self.agent.say_last(SessionClosed(reason=reason)))

    def pause(self) -> None:
        """Let the run stop at its next border: the server is stopping, and stopping is not cancelling."""
        self.agent.pause()

    def finish(self, last_words: Callable[[], object] = lambda: None, farewell: bytes = b"") -> None:
        """End the streams and let go of the journal as it is; a run that still goes on leaves no further trace."""
        if not self.bus.is_closed:
            last_words()
            self.bus.close(farewell)
        self._phase = Phase.CLOSED
        for waiter in self._waiters.values():
            waiter.resolve(None)
        self.agent.close()

    # --- inside ---

    def _after(self, signal: Signal) -> Phase:
        try:
            return next_phase(self._phase, signal)
        except NotNow as error:
            raise Problem(*_NOT_NOW[error.phase]) from None

    def _refuse_closed(self) -> None:
        if self.is_closing:
            raise Problem(*_NOT_NOW[self._phase])

    def _start(self) -> None:
        """The session is claimed: say so and let the supervisor run."""
        self._idle = anyio.Event()
        self.agent.claim()
        self.agent.say_last(Status(busy=True))
        self._tasks.start_soon(self._supervise, name=f"run of {self.id}")

    async def _supervise(self) -> None:
        result: RunResult | None = None
        try:
            result = await self.agent.run()
        except Exception:
            logger.exception("the supervisor of session %s failed", self.id)
        self._end_run(result)

    def _end_run(self, result: RunResult | None) -> None:
        """One step: idle again, and everybody is told."""
        if result is not None:
            self._resolve_all("expired")
            self.agent.say_last(Status(busy=False))
        if self._phase is not Phase.CLOSED:
            self._phase = self._after(Signal.RUN_ENDED)
        self._idle.set()
        if result is not None:
            waiter = self._waiters.pop(result.prompt_id, None)
            if waiter is not None:
                waiter.resolve(result)

    def _abandon(self) -> None:
        """End the interrupted run: its requests are cancelled, its calls paired."""
        self._resolve_all("cancelled")
        self.agent.abandon_run()

    def _open(self, question: Ask) -> Row:
        seconds = self.agent.settings.expires_after_s
        request = PermissionRequest(
            turn=self.agent.history.ledger.turns or None,
            request_id=self._pending.next_id(),
            kind=question.kind,
            call_id=question.call.id,
            tool_name=question.call.name,
            input=question.call.input or {},
            digest=question.digest,
            reasons=question.reasons,
            suggested_rules=question.suggested_rules,
            display=question.display,
            expires_at=None if seconds is None else round(self._clock.now() + seconds, 3),
        ).model_copy(deep=True)
        seq = self.agent.log.emit(request)
        return self._pending.add(
            request.model_copy(update={"seq": seq, "session": self.id, "ts": round(self.agent.log.last_ts, 3)})
        )

    def _resolve_all(self, resolution: Resolution) -> None:
        """Close what is open, journal or not; nobody is woken, since the run that asked is ending."""
        for request in self._pending.requests:
            row = self._pending.get(request.request_id)
            resolved = _resolved(row, resolution)
            self._pending.take(resolved)
            self.agent.say_last(resolved)

    def _resolve(self, row: Row, resolved: PermissionResolved, answer: Answer) -> None:
        """Take the row, tell the world, wake the call that waits; nothing has changed when the journal refuses."""
        self._pending.take(resolved)
        try:
            self.agent.log.emit(resolved)
        except StorageUnavailable:
            self._pending.put_back(row)
            raise
        if self._phase is Phase.INTERRUPTED:
            self.agent.history.answered[row.request.call_id] = resolved
        row.reply.resolve(answer)


def _resolved(row: Row, resolution: Resolution, **said: Any) -> PermissionResolved:
    """The event that closes a row; `said` are the fields that the answer fills."""
    request = row.request
    return PermissionResolved(
        turn=request.turn, request_id=request.request_id, call_id=request.call_id, resolution=resolution, **said
    )


def _check_answer(request: PermissionRequest, body: AnswerBody) -> None:
    if body.digest is not None and body.digest != request.digest:
        raise Problem("stale_request", "The digest is not this request's: show the person the request as it is now.")
    if body.always and not body.allow:
        raise Problem("bad_request", "There is no standing denial: leave `always` out, or allow.")
    if body.scope not in (None, "once") and not body.allow:
        raise Problem("bad_request", "There is no standing denial: leave `scope` out, or allow.")
    if body.mode is not None and request.kind != "plan":
        raise Problem("bad_request", "`mode` answers only the approval of a plan.")
    if body.answer is not None and request.kind != "question":
        raise Problem("bad_request", "`answer` answers only a question; this request takes `allow`.")
    if body.updated_input is not None and not body.allow:
        raise Problem("bad_request", "`updated_input` goes with `allow: true`.")
    if (body.always or body.scope not in (None, "once")) and not request.suggested_rules:
        raise Problem("bad_request", f"A {request.kind} is approved once: leave `always` and `scope` out.")


def _answer_of(resolved: PermissionResolved) -> Answer:
    return Answer(
        allow=resolved.resolution == "allowed",
        by_person=resolved.answered_by != UNATTENDED,
        reason=resolved.reason,
        mode=resolved.mode,
        scope=resolved.scope or "once",
        updated_input=resolved.updated_input,
    )
