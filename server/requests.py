"""The permission requests of one session: asked, offered, answered once. Satisfies the Asker port.

The first answer wins: the row is taken out of the table, the world is told, the waiting call is woken, all in one
step. Rows outlive every client and - through the journal - the process. Knows the log, never the agent.
"""

from collections.abc import Callable
from typing import Any

import anyio

from agentcore.errors import StorageUnavailable
from agentcore.events import PermissionRequest, PermissionResolved, Resolution, Scope
from agentcore.ports import Answer, Ask, Clock, EventLog, Later
from agentcore.session import Settings
from server.pending import Pending, Row
from server.problems import Problem
from server.schemas import AnswerBody

UNATTENDED = "unattended"
"""Who answered when nobody was there to."""


class Requests:
    """Made before the agent whose asker it is; `bind` gives it what the agent's journal says."""

    _log: EventLog
    _pending: Pending
    _settings: Callable[[], Settings]
    _turn: Callable[[], int]
    _answered: dict[str, PermissionResolved]

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: set[anyio.CancelScope] = set()
        self._is_putting_off = False

    def bind(
        self,
        log: EventLog,
        pending: Pending,
        answered: dict[str, PermissionResolved],
        settings: Callable[[], Settings],
        turn: Callable[[], int],
    ) -> None:
        """`answered` holds, by call id, resolutions whose call has not taken them yet."""
        self._log, self._pending, self._answered = log, pending, answered
        self._settings, self._turn = settings, turn

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def open(self) -> tuple[PermissionRequest, ...]:
        """The open requests, oldest first."""
        return self._pending.requests

    # --- asking ---

    def was_asked(self, call_id: str) -> bool:
        return call_id in self._answered or self._pending.of_call(call_id) is not None

    async def ask(self, question: Ask) -> Answer | Later:
        answered = self._answered.get(question.call.id)
        if answered is not None and answered.resolution != "cancelled":
            answer = _answer_of(answered)
        else:
            waited = await self._wait(question)
            if isinstance(waited, Later):
                return waited
            answer = waited
        self._answered.pop(question.call.id, None)
        return answer

    async def _wait(self, question: Ask) -> Answer | Later:
        row = self._pending.of_call(question.call.id) or self._add(question)
        if self._settings().unattended == "deny":
            reason = "nobody is there to answer: the session runs unattended"
            self._resolve(row, _resolved(row, "denied", answered_by=UNATTENDED, reason=reason))
        if not row.reply.is_resolved and (self._is_putting_off or self._settings().unattended == "defer"):
            return Later()
        expires_at = row.request.expires_at
        with anyio.move_on_after(None if expires_at is None else max(0.0, expires_at - self._clock.now())) as scope:
            self._waits.add(scope)
            try:
                return await row.reply.wait()
            finally:
                self._waits.discard(scope)
        if not row.reply.is_resolved:
            if not self._pending.is_open(row) or self._is_putting_off:
                return Later()
            self._resolve(row, _resolved(row, "expired"))
        return await row.reply.wait()

    # --- answering ---

    def get(self, request_id: str) -> PermissionRequest:
        """An open request. Raises: Problem `already_resolved`, `permission_expired` or `not_found`."""
        return self._pending.get(request_id).request

    def answer(self, request_id: str, body: AnswerBody) -> PermissionResolved:
        """Resolve an open request as a client says. Raises: StorageUnavailable, and then it is open as before."""
        row = self._pending.get(request_id)
        scope = scope_of(body) if body.allow else None
        mode = (body.mode or "default") if body.allow and row.request.kind == "plan" else None
        resolved = _resolved(
            row,
            "allowed" if body.allow else "denied",
            answered_by="client",
            scope=scope,
            reason=body.reason,
            mode=mode,
            answer=body.answer,
            updated_input=body.updated_input,
        )
        self._resolve(row, resolved)
        return resolved

    def close_all(self, resolution: Resolution) -> None:
        """Close what is open, journal or not; nobody is woken, since the run that asked is ending."""
        for request in self._pending.requests:
            resolved = _resolved(self._pending.get(request.request_id), resolution)
            self._pending.take(resolved)
            self._log.say_last(resolved)

    def put_off(self) -> None:
        """Let no call of the run that is going on wait for its answer any more; the requests stay open."""
        self._is_putting_off = True
        self._wake()

    def withdraw(self) -> None:
        """Cancel what is open and let the calls that wait for it go on, without an answer."""
        self.close_all("cancelled")
        self._wake()

    def begin_run(self) -> None:
        """From now on calls wait for their answers again."""
        self._is_putting_off = False

    def expire_overdue(self) -> int:
        """Close the requests whose time is over; how many. Raises: StorageUnavailable."""
        now = self._clock.now()
        overdue = [request for request in self.open if request.expires_at is not None and request.expires_at <= now]
        for request in overdue:
            row = self._pending.get(request.request_id)
            self._resolve(row, _resolved(row, "expired"))
        return len(overdue)

    # --- inside ---

    def _wake(self) -> None:
        for scope in self._waits:
            scope.cancel()

    def _add(self, question: Ask) -> Row:
        seconds = self._settings().expires_after_s
        request = PermissionRequest(
            turn=self._turn() or None,
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
        seq = self._log.emit(request)
        envelope = {"seq": seq, "session": self._log.session, "ts": round(self._log.last_ts, 3)}
        return self._pending.add(request.model_copy(update=envelope))

    def _resolve(self, row: Row, resolved: PermissionResolved) -> None:
        """Take the row, tell the world, wake the call that waits; nothing has changed when the journal refuses."""
        self._pending.take(resolved)
        try:
            self._log.emit(resolved)
        except StorageUnavailable:
            self._pending.put_back(row)
            raise
        self._answered[row.request.call_id] = resolved  # it may be that no call waits for it yet
        row.reply.resolve(_answer_of(resolved))


def check_answer(request: PermissionRequest, body: AnswerBody) -> None:
    """Refuse an answer that does not fit its request. Raises: Problem."""
    is_standing = body.always or body.scope not in (None, "once")
    if body.digest is not None and body.digest != request.digest:
        raise Problem("stale_request", "The digest is not this request's: show the person the request as it is now.")
    if body.always and body.scope == "once":
        raise Problem("bad_request", "`always` and the scope `once` contradict each other: leave one out.")
    if is_standing and not body.allow:
        raise Problem("bad_request", "There is no standing denial: leave `always` and `scope` out, or allow.")
    if is_standing and not request.suggested_rules:
        raise Problem("bad_request", "This request can only be allowed once: leave `always` and `scope` out.")
    if body.mode is not None and request.kind != "plan":
        raise Problem("bad_request", "`mode` answers only the approval of a plan.")
    if body.answer is not None and request.kind != "question":
        raise Problem("bad_request", "`answer` answers only a question; this request takes `allow`.")
    if body.updated_input is not None and not body.allow:
        raise Problem("bad_request", "`updated_input` goes with `allow: true`.")


def scope_of(body: AnswerBody) -> Scope:
    return body.scope or ("project" if body.always else "once")


def _resolved(row: Row, resolution: Resolution, **said: Any) -> PermissionResolved:
    """The event that closes a row; `said` are the fields that the answer fills."""
    request = row.request
    return PermissionResolved(
        turn=request.turn, request_id=request.request_id, call_id=request.call_id, resolution=resolution, **said
    )


def _answer_of(resolved: PermissionResolved) -> Answer:
    return Answer(
        allow=resolved.resolution == "allowed",
        expired=resolved.resolution == "expired",
        by_person=resolved.answered_by != UNATTENDED,
        reason=resolved.reason,
        mode=resolved.mode,
        scope=resolved.scope or "once",
        updated_input=resolved.updated_input,
    )
