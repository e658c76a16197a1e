"""Hooks before a person: what a PermissionRequest hook answers, nobody is asked. Satisfies the Asker port.

A hook can refuse everything and allow what an allow rule could: what always needs a person (a protected path, the
removal of a whole tree) it leaves to a person. Plans are the exception, since nothing but consent is asked there.
"""

from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from agentcore.errors import Unprocessable
from agentcore.events import RequestKind
from agentcore.messages import ToolCall
from agentcore.ports.hooks import Hooks
from agentcore.ports.permission import Answer, Ask, Asker, Later

_ASKED = frozenset({"tool", "plan"})
"""What hooks are asked; a question to a person has no answer that a hook could know."""

_NEEDS: Mapping[RequestKind, str] = {
    "tool": "{} needs your permission",
    "plan": "A plan needs your approval",
    "question": "A question needs your answer",
    "budget": "The budget of the session is used up",
}

Apply = Callable[[str, Answer], Awaitable[None]]
"""Puts in force what comes with a hook's yes about a call, by its id: rules and a mode."""
CheckInput = Callable[[ToolCall, Mapping[str, JsonValue]], None]
"""Checks what replaces the input of a call that was asked about. Raises: Unprocessable."""


class HookedAsker:
    def __init__(self, asker: Asker, hooks: Hooks, is_attended: Callable[[], bool]) -> None:
        """`is_attended` says whether a person is there who can be told that they are needed."""
        self._asker = asker
        self._hooks = hooks
        self._is_attended = is_attended
        self._check_input: CheckInput | None = None
        self._apply: Apply | None = None

    def hold(self, check_input: CheckInput, apply: Apply | None = None) -> None:
        """Take what checks inputs and what changes permissions, once it is there: until then a hook does neither."""
        self._check_input, self._apply = check_input, apply

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        return self._asker.was_asked(call_id, digest)

    async def ask(self, question: Ask) -> Answer | Later:
        """Raises: Halted."""
        call = question.call
        is_theirs = question.is_put_off or self._asker.was_asked(call.id)  # it is a person's by now
        if question.kind in _ASKED and not is_theirs:
            answer = await self._hooks.permission_request(question)
            if answer is not None and self._counts(question, answer):
                if self._apply is not None and (answer.rules or answer.mode is not None):
                    await self._apply(question.call.id, answer)
                return answer
        if self._is_attended() and not self._is_known(question):
            self._hooks.notify("permission_prompt", _NEEDS[question.kind].format(call.name))
        return await self._asker.ask(question)

    def _is_known(self, question: Ask) -> bool:
        """Whether a person was told of it already. A budget is one subject, however far it is used up by now."""
        return self._asker.was_asked(question.call.id, None if question.kind == "budget" else question.digest)

    def _counts(self, question: Ask, answer: Answer) -> bool:
        if not answer.allow:
            return True
        if question.kind == "tool" and question.needs_person:
            return False
        if answer.updated_input is None:
            return True
        if self._check_input is None:
            return False
        try:
            self._check_input(question.call, answer.updated_input)
        except Unprocessable:
            return False
        return True
