"""A question to the session's own models beside the conversation: one message, no tools, one answer.

It is announced and paid for like every model call, and nothing of it is part of the conversation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from agentcore.candidates import Candidate, CoolDowns
from agentcore.ids import new_message_id
from agentcore.messages import Message, Text
from agentcore.ports.clock import Clock
from agentcore.ports.log import EventLog
from agentcore.ports.models import Finished, ModelRequest
from agentcore.retry import Patience
from agentcore.turn import SideModel
from agentcore.walk import Walk

ANSWER_TOKENS = 1_000  # a sentence, and what a model thinks before it


@dataclass(frozen=True, slots=True)
class ModelBeside:
    """Of one session."""

    side: Callable[[], SideModel]
    candidates: Callable[[str | None], Sequence[Candidate]]
    """Those of a model, or the session's own ones of the moment. Raises: BadRequest."""
    cool_downs: CoolDowns
    patience: Patience
    log: EventLog
    clock: Clock
    turn: Callable[[], int]
    """The turn that the question belongs to; 0 before the first."""

    async def answer(self, system: str, question: str, model: str | None = None) -> Finished:
        """Raises: ProviderError; BadRequest where there is no such model."""
        message = Message(id=new_message_id(), role="user", content=(Text(text=question),))
        side = self.side()
        walk = Walk(
            model=side,
            candidates=self.candidates(model),
            make_request=lambda candidate: self._request(candidate, system, message),
            cool_downs=self.cool_downs,
            patience=self.patience,
            stopping=anyio.Event(),
            log=self.log,
            clock=self.clock,
        )
        return await walk.call_beside(self.turn(), side, walk.make_request)

    def _request(self, candidate: Candidate, system: str, message: Message) -> ModelRequest:
        return ModelRequest(
            model=candidate.model,
            system=system,
            tools=(),
            messages=(message,),
            session=self.log.session,
            max_tokens=ANSWER_TOKENS,
        )
