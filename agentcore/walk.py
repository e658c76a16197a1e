"""The way of a model call through attempts and models, until one answers or none is left.

A model that fails is asked again after a pause, then the next one is asked; both only while nothing of the call was
shown. It is told what happens: an attempt that is repeated and a model that is passed over are notices, a pause is a
`waiting`. A cancel ends all of it at once, a stopping process at the next pause, and then the run stays open.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, takewhile
from typing import Literal, TypeAlias

import anyio

from agentcore.candidates import Candidate, CoolDowns, choose
from agentcore.errors import ProviderError
from agentcore.events import Notice, Waiting, WaitingDetail, WaitingFor
from agentcore.ports.clock import Clock
from agentcore.ports.log import EventLog
from agentcore.ports.models import Finished, ModelRequest
from agentcore.retry import Patience, attempts_for, cool_down_s, wait_s
from agentcore.stops import Verdict
from agentcore.turn import Failure, Model, SideModel

_AT_ONCE_S = 0.05  # what would be shown as 0.0 s


class Paused(Exception):
    """The run stopped and stays open: the process is stopping."""


MakeRequest: TypeAlias = Callable[[Candidate], ModelRequest]


@dataclass(slots=True)
class Walk:
    """The model calls of one run. Once a model has answered, the run stays with it until it fails in its turn."""

    model: Model
    candidates: Sequence[Candidate]
    """In order of preference, at least one."""
    make_request: MakeRequest
    cool_downs: CoolDowns
    patience: Patience
    stopping: anyio.Event
    """Set when the process stops: no pause is waited out then, and nothing is asked again."""
    log: EventLog
    clock: Clock
    _answering: Candidate | None = field(default=None, init=False)
    _told: set[str] = field(default_factory=set, init=False)
    """Labels of the models that the run was told to be left alone."""

    @property
    def nearest(self) -> Candidate:
        """The model that the next call is made to first."""
        return self._answering or choose(self.candidates, self.cool_downs, tried=()) or self.candidates[0]

    def go_over_to(self, candidates: Sequence[Candidate]) -> None:
        """Make the next calls to other models: at least one, in order of preference."""
        self.candidates, self._answering = candidates, None

    async def call(self, turn: int) -> Verdict:
        """Have the call answered; say how the run goes on. Raises: ProviderError, Paused, StorageUnavailable."""
        return await self._call(turn, self.model, self.make_request)

    async def call_beside(self, turn: int, side: SideModel, make_request: MakeRequest) -> Finished:
        """Have another request answered on the same way, beside the conversation. Raises: as `call`."""
        await self._call(turn, side, make_request)
        return side.answer

    async def _call(self, turn: int, model: Model, make_request: MakeRequest) -> Verdict:
        numbers, failed = count(1), dict[Candidate, ProviderError]()
        candidate = self._answering or self._first(turn)
        while True:
            outcome = await self._ask(turn, candidate, numbers, model, make_request(candidate))
            if isinstance(outcome, Verdict):
                self._answering = candidate
                self.cool_downs.end(candidate)
                return outcome
            failed[candidate] = outcome.error
            candidate = self._after(turn, candidate, outcome, failed)

    @property
    def answered_by(self) -> str:
        """The model that the run stays with: `provider/model`."""
        return (self._answering or self.candidates[0]).label

    async def _ask(
        self, turn: int, candidate: Candidate, numbers: Iterator[int], model: Model, request: ModelRequest
    ) -> Verdict | Failure:
        """Ask one model until it answers, or has failed as often as it may."""
        for asked in count(1):
            outcome = await model.attempt(turn, next(numbers), candidate, request)
            if isinstance(outcome, Verdict) or outcome.was_shown:
                break
            delay_s = wait_s(outcome.error, asked, self.patience.chance)
            if delay_s is None:
                break
            await self._pause(turn, candidate, outcome.error, asked, delay_s)
        return outcome

    async def _pause(self, turn: int, candidate: Candidate, error: ProviderError, asked: int, delay_s: float) -> None:
        """Wait before the next attempt, and let everybody know until when."""
        since = self.clock.now()
        when = "at once" if delay_s < _AT_ONCE_S else f"in {delay_s:.1f} s"
        again = f"It is asked again {when}, attempt {asked + 1} of {attempts_for(error.kind)}."
        self._tell(turn, "info", "model_retry", f"{_failed(candidate, error)} {again}")
        self._wait("retry", turn, since, candidate, until=since + delay_s)
        if await self.patience.wait(self.stopping, delay_s):
            raise Paused
        self._wait("model", turn, self.clock.now(), candidate)

    def _first(self, turn: int) -> Candidate:
        """Whom the run asks first: the preferred one, unless it is left alone."""
        chosen = choose(self.candidates, self.cool_downs, tried=()) or self.candidates[0]
        self._tell_skipped(turn, chosen, tried=())
        return chosen

    def _after(
        self, turn: int, last: Candidate, failure: Failure, failed: Mapping[Candidate, ProviderError]
    ) -> Candidate:
        """Whom to ask after the last one has failed. Raises: ProviderError when there is nobody; Paused."""
        error, cool_s = failure.error, cool_down_s(failure.error)
        if failure.was_shown:
            raise error
        if cool_s is None:
            raise self._summed_up(failed)
        self.cool_downs.begin(last, cool_s)
        following = choose(self.candidates, self.cool_downs, failed)
        if following is not None:
            text = f"{_failed(last, error)} The run goes on with {following.label}."
            self._tell(turn, "warning", "model_failover", text)
        self._tell_skipped(turn, following, failed)
        if following is None:
            raise self._summed_up(failed)
        if self.stopping.is_set():
            raise Paused
        return following

    def _summed_up(self, failed: Mapping[Candidate, ProviderError]) -> ProviderError:
        """The error of the model that a person chose, as far as it was asked; the others are only named."""
        chosen = next(candidate for candidate in self.candidates if candidate in failed)
        error = failed[chosen]
        others = ", ".join(f"{one.label} ({its.kind})" for one, its in failed.items() if one != chosen)
        if not others:
            return error
        text = f"{str(error).rstrip('.')}. Its stand-ins failed too: {others}."
        return ProviderError(error.kind, text, retry_after_s=error.retry_after_s)

    def _tell_skipped(self, turn: int, chosen: Candidate | None, tried: Collection[Candidate]) -> None:
        """Tell of each model that would have been asked but is left alone, once per run."""
        for candidate in takewhile(lambda candidate: candidate != chosen, self.candidates):
            if candidate in tried or candidate.label in self._told:
                continue
            self._told.add(candidate.label)
            until = datetime.fromtimestamp(self.clock.now() + self.cool_downs.left_s(candidate), UTC)
            text = f"{candidate.label} failed a moment ago and is left alone until {until:%H:%M:%S} UTC."
            self._tell(turn, "warning", "model_cooling_down", text)

    def _tell(self, turn: int, level: Literal["info", "warning"], code: str, text: str) -> None:
        self.log.emit(Notice(turn=turn, level=level, code=code, text=text))

    def _wait(
        self, for_what: WaitingFor, turn: int, since: float, candidate: Candidate, until: float | None = None
    ) -> None:
        detail = WaitingDetail(until=until, model=candidate.label)
        self.log.emit(Waiting(turn=turn, waiting_for=for_what, since=since, detail=detail))


def _failed(candidate: Candidate, error: ProviderError) -> str:
    return f"{candidate.label} failed ({error.kind}): {str(error).rstrip('.')}."
