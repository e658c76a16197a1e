"""The permission requests of one session: asked, offered, answered once. Satisfies the Asker port.

The first answer wins: the row is taken out of the table, the world is told, the waiting call is woken, all in one
step. Rows outlive every client and - through the journal - the process. Knows the log, never the agent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from agentcore.errors import StorageUnavailable
from agentcore.events import PermissionRequest, PermissionResolved, Resolution, Scope
from agentcore.limits import is_enough, raised
from agentcore.ports.clock import Clock
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Answer, Ask, Later
from agentcore.questions import options_of, with_answer
from agentcore.session import Settings
from agentcore.usage import Budget
from server.pending import Pending, Row
from server.problems import Problem
from server.schemas import AnswerBody

NOT_LATER = "the answer is put off, and a subagent cannot wait for it: leave this call to the main agent"
UNATTENDED = "unattended"
"""Who answered when nobody was there to."""


class Requests:
    """Made before the agent whose asker it is; `bind` gives it what the agent's journal says."""

    _log: EventLog
    _pending: Pending
    _settings: Callable[[], Settings]
    _turn: Callable[[], int]
    _answered: dict[str, PermissionResolved]
    _digests: dict[str, str]

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[str, anyio.CancelScope] = {}
        """By request id."""
        self._is_putting_off = False

    def bind(
        self,
        log: EventLog,
        pending: Pending,
        answered: dict[str, PermissionResolved],
        digests: dict[str, str],
        settings: Callable[[], Settings],
        turn: Callable[[], int],
    ) -> None:
        """`answered` holds, by call id, resolutions whose call has not taken them yet, `digests` those of what calls
        asked last."""
        self._log, self._pending, self._answered, self._digests = log, pending, answered, digests
        self._settings, self._turn = settings, turn

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def open(self) -> tuple[PermissionRequest, ...]:
        """The open requests, oldest first."""
        return self._pending.requests

    @property
    def of_run(self) -> tuple[PermissionRequest, ...]:
        """Those that a run waits for: they end with it. Those of a background task end with that."""
        return self._pending.of_run

    # --- asking ---

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        is_same = digest is None or self._digests.get(call_id, digest) == digest
        return is_same and (call_id in self._answered or self._pending.of_call(call_id) is not None)

    async def ask(self, question: Ask) -> Answer | Later:
        if question.kind != "budget":  # its numbers change while it waits, and it stays the same question
            self._forget_other(question)
        answered = self._answered.get(question.call.id)
        if answered is not None and answered.resolution != "cancelled":
            answer = _answer_of(answered)
        else:
            waited = await self._wait(question)
            if isinstance(waited, Later):
                return waited
            answer = waited
        self._answered.pop(question.call.id, None)
        self._digests.pop(question.call.id, None)
        return answer

    def _forget_other(self, question: Ask) -> None:
        """Take back what a call has asked before, unless it is just this: an answer holds for what was shown."""
        call_id = question.call.id
        if self.was_asked(call_id) and not self.was_asked(call_id, question.digest):
            self._answered.pop(call_id, None)
            row = self._pending.of_call(call_id)
            if row is not None:
                self._close(row.request, "cancelled")

    async def _wait(self, question: Ask) -> Answer | Later:
        row = self._pending.of_call(question.call.id) or self._add(question)
        if self._settings().unattended == "deny":
            reason = "nobody is there to answer: the session runs unattended"
            self._resolve(row, _resolved(row, "denied", answered_by=UNATTENDED, reason=reason))
        is_put_off = question.is_put_off or self._is_putting_off or self._settings().unattended == "defer"
        if not row.reply.is_resolved and is_put_off and question.task_id is None:
            if question.ends_with_wait:
                return self._taken_back(row)
            if question.agent is None:
                return Later()
            self._refuse_to_wait(row)
        expires_at = row.request.expires_at
        try:
            with anyio.move_on_after(None if expires_at is None else max(0.0, expires_at - self._clock.now())) as scope:
                self._waits[row.request.request_id] = scope
                try:
                    return await row.reply.wait()
                finally:
                    del self._waits[row.request.request_id]
        except anyio.get_cancelled_exc_class():
            if question.ends_with_wait:
                self._taken_back(row)
            raise
        if not row.reply.is_resolved:
            if question.ends_with_wait and self._is_putting_off:
                return self._taken_back(row)
            must_wait = question.task_id is not None or question.agent is not None
            if not self._pending.is_open(row) or (self._is_putting_off and not must_wait):
                return Later()
            self._resolve(row, _resolved(row, "expired"))
        return await row.reply.wait()

    def _taken_back(self, row: Row) -> Later:
        """Close what nobody waits for any more, and of which no answer would reach anybody."""
        if self._pending.is_open(row):
            self._close(row.request, "cancelled")
        return Later()

    def _refuse_to_wait(self, row: Row) -> None:
        """Close what a subagent asks that nobody answers now: it is gone when the answer comes. Its run goes on."""
        if self._is_putting_off:
            self._resolve(row, _resolved(row, "expired"))
        else:
            self._resolve(row, _resolved(row, "denied", answered_by=UNATTENDED, reason=NOT_LATER))

    # --- answering ---

    def get(self, request_id: str) -> PermissionRequest:
        """An open request. Raises: Problem `already_resolved`, `permission_expired` or `not_found`."""
        return self._pending.get(request_id).request

    def answer(self, request_id: str, body: AnswerBody, granted: "Granted | None" = None) -> PermissionResolved:
        """Resolve an open request as a client says; `granted` is the rule that it puts in force.

        Raises: BadRequest and Unprocessable for what is no answer to its question, StorageUnavailable; then it is open
        as before.
        """
        row = self._pending.get(request_id)
        scope = scope_of(body) if body.allow else None
        mode = (body.mode or "default") if body.allow and row.request.kind == "plan" else None
        is_answer = body.allow and row.request.kind == "question" and body.updated_input is None
        resolved = _resolved(
            row,
            "allowed" if body.allow else "denied",
            answered_by="client",
            scope=scope,
            reason=body.reason,
            mode=mode,
            answer=body.answer,
            updated_input=with_answer(row.request.input, body.answer) if is_answer else body.updated_input,
            budget=self._raised(row.request) if body.allow else None,
            rule=None if granted is None else granted.rule,
            expires_at=None if granted is None else granted.expires_at,
        )
        self._resolve(row, resolved)
        return resolved

    def let_go_on(self) -> bool:
        """Allow the requests about a budget that is high enough by now, because somebody raised it; whether there were
        any. Raises: StorageUnavailable."""
        budget = self._settings().budget or Budget()
        asked = [request for request in self.open if request.kind == "budget" and is_enough(budget, request.input)]
        for request in asked:
            row = self._pending.get(request.request_id)
            self._resolve(row, _resolved(row, "allowed", answered_by="client", reason="the budget was raised"))
        return bool(asked)

    def close_all(self, resolution: Resolution) -> None:
        """Close what a run has open, journal or not; nobody is woken, since the run that asked is ending."""
        for request in self._pending.of_run:
            self._close(request, resolution)

    def close_task(self, task_id: str, resolution: Resolution) -> None:
        """The same for a background task that has ended."""
        for request in self._pending.requests:
            if request.task_id == task_id:
                self._close(request, resolution)

    def close_lost(self) -> None:
        """The same for what background tasks asked before this load: none of them runs any more."""
        for request in self._pending.requests:
            if request.task_id is not None:
                self._close(request, "expired")

    def put_off(self) -> None:
        """Let no call of the run that is going on wait for its answer any more; the requests stay open."""
        self._is_putting_off = True
        for request in self._pending.of_run:
            if scope := self._waits.get(request.request_id):
                scope.cancel()

    def withdraw(self) -> None:
        """Cancel what calls have asked and let them go on without an answer. The budget is used up all the same, and
        what a subagent asks is nothing of the run's own batch."""
        for request in self._pending.of_run:
            if request.kind != "budget" and request.agent is None:
                self._close(request, "cancelled")
                if request.request_id in self._waits:
                    self._waits[request.request_id].cancel()

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

    def _close(self, request: PermissionRequest, resolution: Resolution) -> None:
        resolved = _resolved(self._pending.get(request.request_id), resolution)
        self._pending.take(resolved)
        self._log.say_last(resolved)

    def _raised(self, request: PermissionRequest) -> Budget | None:
        budget = self._settings().budget
        return raised(budget, request.input) if request.kind == "budget" and budget is not None else None

    def _add(self, question: Ask) -> Row:
        seconds = self._settings().expires_after_s
        request = PermissionRequest(
            agent=question.agent,
            turn=(self._turn() or None) if question.agent is None else question.turn,
            request_id=self._pending.next_id(),
            kind=question.kind,
            call_id=question.call.id,
            tool_name=question.call.name,
            input=question.call.input or {},
            digest=question.digest,
            reasons=question.reasons,
            suggested_rules=question.suggested_rules,
            display=question.display,
            task_id=question.task_id,
            options=options_of(question.call.input or {}) if question.kind == "question" else None,
            expires_at=None if seconds is None else round(self._clock.now() + seconds, 3),
        ).model_copy(deep=True)
        seq = self._log.emit(request)
        self._digests[request.call_id] = request.digest
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
        if row.request.kind != "budget" or resolved.resolution != "allowed":  # else the budget itself says it
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
    if body.expires_in_s is not None and not is_standing:
        raise Problem("bad_request", "`expires_in_s` goes with `always` or a scope wider than once.")
    if is_standing and not request.suggested_rules:
        raise Problem("bad_request", "This request can only be allowed once: leave `always` and `scope` out.")
    if body.mode is not None and request.kind != "plan":
        raise Problem("bad_request", "`mode` answers only the approval of a plan.")
    if body.answer is not None and request.kind != "question":
        raise Problem("bad_request", "`answer` answers only a question; this request takes `allow`.")
    if body.answer is not None and (body.updated_input is not None or not body.allow):
        raise Problem("bad_request", "`answer` goes with `allow: true`, and without `updated_input`.")
    if body.updated_input is not None and request.kind == "budget":
        raise Problem(
            "bad_request", "A budget is raised as asked, or to any height by PATCH: leave `updated_input` out."
        )
    if body.updated_input is not None and not body.allow:
        raise Problem("bad_request", "`updated_input` goes with `allow: true`.")


@dataclass(frozen=True, slots=True)
class Granted:
    """An allow rule that an answer put in force."""

    rule: str
    expires_at: float | None
    """Unix time in seconds; None: it stays."""


def scope_of(body: AnswerBody) -> Scope:
    return body.scope or ("project" if body.always else "once")


def _resolved(row: Row, resolution: Resolution, **said: Any) -> PermissionResolved:
    """The event that closes a row; `said` are the fields that the answer fills."""
    request = row.request
    return PermissionResolved(
        agent=request.agent,
        turn=request.turn,
        request_id=request.request_id,
        call_id=request.call_id,
        resolution=resolution,
        **said,
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
