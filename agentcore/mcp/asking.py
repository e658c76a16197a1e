"""Brings what a server asks in a call to a person, through the way that every question takes.

Each round of a form is a request of its own, `ask_user` by name, under an id that is made from the call's: the answer
to the call itself is another matter. Nobody there, no answer, or a question of another kind: the server is told so.
"""

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from agentcore.mcp.forms import BadAnswer, BadForm, Field, Value, fields_of, questions, rounds, values
from agentcore.messages import ToolCall
from agentcore.permissions.gate import digest_of
from agentcore.ports.permission import Answer, Ask, Asker, Later

if TYPE_CHECKING:
    import mcp_types as types

ASK_USER = "ask_user"
MAX_TRIES = 3
"""For an answer in words that does not fit its field."""
MAX_MESSAGE_CHARS = 2_000
MAX_FORMS = 10
"""That a server may want filled in during one call."""


class _Unanswered(Exception):
    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


class Asking:
    """For one call."""

    def __init__(self, asker: Asker | None, server: str, call_id: str) -> None:
        self._asker = asker
        self._server = server
        self._call_id = call_id
        self._numbers = count(1)
        self._forms = 0

    async def answer(self, params: "types.ElicitRequestFormParams") -> "types.ElicitResult":
        """Put a form before a person."""
        from mcp_types import ElicitResult

        self._forms += 1
        try:
            if self._asker is None or self._forms > MAX_FORMS:
                raise _Unanswered("decline")
            fields = fields_of(params.requested_schema)
            filled: dict[str, Value] = {}
            for some in rounds(fields):
                filled |= await self._round(self._asker, some, params.message)
            if not fields:
                await self._confirm(self._asker, params.message)
        except BadForm:
            return ElicitResult(action="decline")
        except _Unanswered as unanswered:
            return ElicitResult.model_validate({"action": unanswered.action})
        return ElicitResult(action="accept", content=filled)

    async def _confirm(self, asker: Asker, message: str) -> None:
        """A form without fields wants nothing but consent."""
        field = Field("ok", "boolean", "Go on?", is_required=True)
        if not (await self._round(asker, (field,), message))["ok"]:
            raise _Unanswered("decline")

    async def _round(self, asker: Asker, fields: tuple[Field, ...], message: str) -> dict[str, Value]:
        """Raises: _Unanswered."""
        objection = ""
        for _ in range(MAX_TRIES):
            asked = questions(fields, objection).model_dump(mode="json", by_alias=True, exclude_defaults=True)
            try:
                return values(fields, await self._ask(asker, asked, message))
            except BadAnswer as error:
                objection = str(error)
        raise _Unanswered("cancel")

    async def _ask(self, asker: Asker, input: dict[str, Any], message: str) -> Mapping[str, Any]:
        """Raises: _Unanswered."""
        call = ToolCall(id=f"{self._call_id}/{next(self._numbers)}", name=ASK_USER, input=input)
        answer = await asker.ask(
            Ask(
                kind="question",
                call=call,
                digest=digest_of(call.name, input),
                reasons=(f"the MCP server {self._server} asks during a call",),
                suggested_rules=(),
                display=message[:MAX_MESSAGE_CHARS],
                needs_person=True,
                ends_with_wait=True,
            )
        )
        if isinstance(answer, Later) or answer.expired:
            raise _Unanswered("cancel")
        return _answers(answer)


def _answers(answer: Answer) -> Mapping[str, Any]:
    """Raises: _Unanswered."""
    said = (answer.updated_input or {}).get("answers")
    if not answer.allow or not isinstance(said, dict):
        raise _Unanswered("decline")
    return said
