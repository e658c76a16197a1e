"""Tool calls while they arrive, in all the ways in which services cut them into pieces.

Seen on the wire: calls without index, several under one index, with ids or with names alone, ids that come late, change
in mid-air, are repeated with the name on every piece or never come, arguments that are missing, null or an object in
the place of its text.
"""

from collections.abc import Iterator

from pydantic_core import to_json

from agentcore.caps import bounded_input
from agentcore.messages import Opaque, ToolCall
from agentcore.ports.models import ToolCallPart
from agentcore.providers.compatible.body import EXTRA
from agentcore.providers.growing import GrowingInput, Wire, name_in


class GrowingCall:
    def __init__(self, made_id: str) -> None:
        self._made_id = made_id
        self._id = ""
        self._input = GrowingInput()
        self._ends_in_brace = False
        self.extra: Wire = {}
        self.given_id = ""
        self.name = ""

    def grow(self, call_id: str, name: str, arguments: str) -> Iterator[ToolCallPart]:
        """Take a piece; yield what it shows: the beginning once the name is known, then the size."""
        self.given_id = self.given_id or call_id
        if name and not self.name:
            self.name = name
            self._id = self.given_id or self._made_id
            yield ToolCallPart(self._id, name, 0)
        if self._input.add(arguments):
            self._ends_in_brace = arguments.rstrip().endswith("}")
            if self._id:
                yield ToolCallPart(self._id, self.name, self._input.size_bytes)

    def is_whole(self) -> bool:
        return self._ends_in_brace and self._input.parse() is not None

    def block(self) -> ToolCall:
        """The call; one that was never named names no tool and is answered as such."""
        return ToolCall(id=self._id or self.given_id or self._made_id, name=self.name, input=self._input.parse())


class GrowingCalls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[GrowingCall] = []
        self._by_index: dict[int, GrowingCall] = {}
        self._by_id: dict[str, GrowingCall] = {}

    @property
    def have_begun(self) -> bool:
        return bool(self._calls)

    def take(self, piece: Wire) -> tuple[GrowingCall | None, list[ToolCallPart]]:
        """Take one piece; return the call that it begins, if it does, and what it shows."""
        function = piece.get("function") or {}
        index, call_id, name = piece.get("index"), piece.get("id") or "", function.get("name") or ""
        arguments = _argument_text(function.get("arguments"))
        call_id, name = name_in(call_id), name_in(name)
        call, begun = self._find(index, call_id, name), None
        if call is None or _is_another(call, call_id, name, arguments):
            call = begun = GrowingCall(f"call_{len(self._calls)}")
            self._calls.append(call)
        if type(index) is int:
            self._by_index[index] = call
        call.extra = piece.get(EXTRA) or call.extra
        shown = list(call.grow(call_id, name, arguments))
        if call.given_id:
            self._by_id.setdefault(call.given_id, call)
        return begun, shown

    def extras(self, provider: str, model: str) -> Opaque | None:
        """What the calls carry besides (Gemini behind gateways: the seals of its reasoning), by their order."""
        extras = [call.extra for call in self._calls]
        raw = bounded_input({"type": EXTRA, EXTRA: extras}) if any(extras) else None
        return None if raw is None else Opaque(provider=provider, model=model, raw=raw)

    def _find(self, index: object, call_id: str, name: str) -> GrowingCall | None:
        """The call that a piece may belong to."""
        if type(index) is int and index in self._by_index:
            return self._by_index[index]
        if type(index) is int and (call_id or name):
            return None
        return self._by_id.get(call_id, self._calls[-1] if self._calls else None)


def _is_another(call: GrowingCall, call_id: str, name: str, arguments: str) -> bool:
    """Whether a piece begins a call of its own in the place of this one. None begins without a name."""
    if not name:
        return False
    if call_id and call.given_id:
        return call_id != call.given_id
    if call.name and name != call.name and not call.given_id:
        return True  # a name beside an id could be more of its name
    return call.is_whole() and (name != call.name or bool(arguments))


def _argument_text(arguments: object) -> str:
    """The text of arguments, also of those given as an object. Raises: TypeError for anything else."""
    if not arguments:
        return ""
    if isinstance(arguments, dict):
        return to_json(arguments).decode()
    if type(arguments) is not str:
        raise TypeError("arguments are neither text nor an object")
    return arguments
