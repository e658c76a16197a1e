"""What a list of messages must be like so that every vendor takes it, and how one is mended that is not.

Nothing here should ever find anything: the transcript keeps its own rules. It is the net under them, for journals of
older versions, for edits by hand and for bugs, because one message that is refused would be refused for ever. Pure;
a check costs as much as the messages that are new. Promise: a repair mends everything at once, always in the same
way, and changes nothing where there is nothing to mend.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentcore.images import MAX_BYTES, MAX_RATIO, MAX_SIDE_PX
from agentcore.media import MAX_FILE_BYTES
from agentcore.messages import Attachment, Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult

LOST_RESULT = (
    "outcome unknown: the result of this call was lost. It may have taken effect in whole, in part or not at all;"
    " look before you repeat it."
)
LOST_BEGINNING = "[The beginning of this conversation is missing.]"
LOST_MESSAGE = "[Nothing is left of this message.]"
TOO_LARGE = "[A file that was shown here is larger than models take, and was left out.]"

_USER_BLOCKS = (Text, Image, Document)
"""Besides results, which come first."""
_ASSISTANT_BLOCKS = (Text, Thinking, ToolCall, Opaque)

_SENTENCES = {
    "missing_result": "calls had no result",
    "orphan_result": "results had no call",
    "wrong_order": "results were out of order",
    "repeated_call_id": "ids of calls were used twice",
    "repeated_message_id": "ids of messages were used twice",
    "misplaced_block": "blocks were where no model takes them",
    "empty_message": "messages were empty",
    "same_role_twice": "messages did not take turns",
    "no_beginning": "messages of a person were missing at the beginning",
    "too_large": "files were larger than models take",
}


@dataclass(frozen=True, slots=True)
class Repaired:
    """Messages that every vendor takes, and what was wrong with those they are made of."""

    messages: tuple[Message, ...]
    findings: Counter[str]
    """Kinds of damage with how often they were found; empty when nothing was changed."""

    @property
    def what(self) -> str:
        """A sentence for people."""
        return sentence(self.findings)


def sentence(findings: Counter[str]) -> str:
    told = "; ".join(f"{count} {_SENTENCES[kind]}" for kind, count in sorted(findings.items()))
    return f"The transcript was mended: {told}."


class Validator:
    """Checks the growing messages of one conversation before they are sent; remembers how far it has come."""

    def __init__(self) -> None:
        self._settled: list[Message] = []
        """The last message that was checked and cannot change any more, if any: the very last one may still grow."""
        self._count = 0
        self._message_ids: set[str] = set()
        self._call_ids: set[str] = set()

    def check(self, messages: Sequence[Message]) -> Repaired | None:
        """Look at what is new; the whole list mended when something is wrong with it."""
        if not self._is_known(messages):
            self._forget()
        before = self._settled[0] if self._settled else None
        for message in messages[self._count : -1]:
            if not self._is_sound(message, before):
                return self._repair(messages)
            self._message_ids.add(message.id)
            self._call_ids.update(call.id for call in message.tool_calls)
            self._count += 1
            self._settled = [before := message]
        if messages and not (self._is_sound(messages[-1], before) and not messages[-1].tool_calls):
            return self._repair(messages)
        return None

    def _is_known(self, messages: Sequence[Message]) -> bool:
        """Whether the messages begin with those that were checked: a compaction replaces them."""
        return self._count == 0 or (len(messages) >= self._count and messages[self._count - 1] is self._settled[0])

    def _is_sound(self, message: Message, before: Message | None) -> bool:
        return is_sound(message, before, self._message_ids, self._call_ids)

    def _repair(self, messages: Sequence[Message]) -> Repaired:
        self._forget()
        return repair(messages)

    def _forget(self) -> None:
        self._settled, self._count = [], 0
        self._message_ids, self._call_ids = set(), set()


def is_sound(message: Message, before: Message | None, message_ids: set[str], call_ids: set[str]) -> bool:
    """Whether a message may follow the one `before` it, in a list that has used these ids."""
    if not message.content or not message.id or message.id in message_ids:
        return False
    if message.role == "assistant":
        return _is_sound_answer(message, before, call_ids)
    if before is not None and before.role == "user":
        return False
    calls = () if before is None else before.tool_calls
    answered, rest = message.content[: len(calls)], message.content[len(calls) :]
    return (
        len(answered) == len(calls)
        and all(
            isinstance(block, ToolResult) and block.call_id == call.id
            for block, call in zip(answered, calls, strict=True)
        )
        and all(isinstance(block, _USER_BLOCKS) for block in rest)
        and all(_fits(one) for block in message.content for one in _files(block))
    )


def _is_sound_answer(message: Message, before: Message | None, call_ids: set[str]) -> bool:
    """An answer may follow another one: a model may pause, and go on."""
    ids = [call.id for call in message.tool_calls]
    return (
        before is not None
        and not before.tool_calls
        and all(isinstance(block, _ASSISTANT_BLOCKS) for block in message.content)
        and all(ids)
        and len(set(ids)) == len(ids)
        and call_ids.isdisjoint(ids)
    )


def repair(messages: Sequence[Message], *, may_be_open: bool = False) -> Repaired:
    """Mend a list of messages; with `may_be_open` the calls of its last one still wait for their results."""
    mending, last = _Mending(), len(messages) - 1
    for at, message in enumerate(messages):
        if message.role == "user":
            mending.add_user(message)
        else:
            mending.add_answer(message, is_open=may_be_open and at == last)
    if not may_be_open:
        mending.close_calls()
    return Repaired(tuple(mending.messages), mending.findings)


@dataclass(slots=True)
class _Mending:
    messages: list[Message] = field(default_factory=list)
    findings: Counter[str] = field(default_factory=Counter)
    waiting: list[tuple[str, ToolCall]] = field(default_factory=list)
    """Calls of the last message, each with the id that its result has."""
    message_ids: set[str] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)

    def add_answer(self, message: Message, *, is_open: bool) -> None:
        self.close_calls()
        content: list[Block] = []
        waiting: list[tuple[str, ToolCall]] = []
        for block in self._only(message.content, _ASSISTANT_BLOCKS):
            if isinstance(block, ToolCall):
                renamed = block if is_open else self._with_own_id(block)
                waiting.append((block.id, renamed))
                block = renamed
            content.append(block)
        if not content:
            self.findings["empty_message"] += 1
            return
        if not self.messages:
            self.findings["no_beginning"] += 1
            self._append(Message(id=f"{message.id}-before", role="user", content=(Text(text=LOST_BEGINNING),)))
        self._append(message.model_copy(update={"content": tuple(content)}))
        self.waiting = waiting

    def add_user(self, message: Message) -> None:
        results = [block for block in message.content if isinstance(block, ToolResult)]
        said = [block for block in message.content if not isinstance(block, ToolResult)]
        found_before = self.findings.total()
        content = [*self._in_order(results), *self._fitting(self._only(said, _USER_BLOCKS))]
        if self.findings.total() == found_before and content != [*message.content]:
            self.findings["wrong_order"] += 1
        if not content:
            self.findings["empty_message"] += 1
            content = [Text(text=LOST_MESSAGE)]
        if self.messages and self.messages[-1].role == "user":
            self.findings["same_role_twice"] += 1
            before = self.messages.pop()
            self.message_ids.discard(before.id)
            content = [*before.content, *content]
        self._append(message.model_copy(update={"content": tuple(content)}))

    def close_calls(self) -> None:
        """Answer the calls that no message answers."""
        if self.waiting:
            asked = self.messages[-1]
            self._append(Message(id=f"{asked.id}-results", role="user", content=tuple(self._in_order([]))))

    def _in_order(self, results: Sequence[ToolResult]) -> list[ToolResult]:
        """One result for each call that waits, in their order."""
        found: dict[str, deque[ToolResult]] = defaultdict(deque)
        for result in results:
            found[result.call_id].append(result)
        ordered: list[ToolResult] = []
        for asked_as, call in self.waiting:
            if found[asked_as]:
                result = found[asked_as].popleft()
                ordered.append(self._result(result, call.id))
            else:
                self.findings["missing_result"] += 1
                ordered.append(ToolResult(call_id=call.id, content=LOST_RESULT, is_error=True))
        self._found("orphan_result", sum(map(len, found.values())))
        self.waiting = []
        return ordered

    def _result(self, result: ToolResult, call_id: str) -> ToolResult:
        fitting = tuple(one for one in result.attachments if _fits(one))
        left_out = len(result.attachments) - len(fitting)
        if not left_out:
            return result if result.call_id == call_id else result.model_copy(update={"call_id": call_id})
        self._found("too_large", left_out)
        content = "\n".join([result.content, *[TOO_LARGE] * left_out])
        return result.model_copy(update={"call_id": call_id, "attachments": fitting, "content": content})

    def _only(self, blocks: Sequence[Block], kinds: tuple[type[Block], ...]) -> list[Block]:
        kept = [block for block in blocks if isinstance(block, kinds)]
        self._found("misplaced_block", len(blocks) - len(kept))
        return kept

    def _fitting(self, blocks: Sequence[Block]) -> list[Block]:
        kept: list[Block] = [block if all(map(_fits, _files(block))) else Text(text=TOO_LARGE) for block in blocks]
        self._found("too_large", sum(one is not other for one, other in zip(kept, blocks, strict=True)))
        return kept

    def _found(self, kind: str, count: int) -> None:
        if count:  # a kind that was not found is not in the counter
            self.findings[kind] += count

    def _append(self, message: Message) -> None:
        own_id = _unused(message.id or "message", self.message_ids)
        if own_id != message.id:
            self.findings["repeated_message_id"] += 1
            message = message.model_copy(update={"id": own_id})
        self.message_ids.add(own_id)
        self.messages.append(message)

    def _with_own_id(self, call: ToolCall) -> ToolCall:
        own_id = _unused(call.id or "call", self.call_ids)
        self.call_ids.add(own_id)
        if own_id == call.id:
            return call
        self.findings["repeated_call_id"] += 1
        return call.model_copy(update={"id": own_id})


def _unused(name: str, used: set[str]) -> str:
    candidate, n = name, 1
    while candidate in used:
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def _files(block: Block) -> tuple[Attachment, ...]:
    match block:
        case Image() | Document():
            return (block,)
        case ToolResult(attachments=attachments):
            return attachments
        case _:
            return ()


def _fits(file: Attachment) -> bool:
    """Whether it is within every vendor's limits, as everything was that came in by the right way."""
    if isinstance(file, Document):
        return file.size_bytes <= MAX_FILE_BYTES
    sides = sorted((file.width, file.height))
    return file.size_bytes <= MAX_BYTES and 1 <= sides[0] <= sides[1] <= min(MAX_SIDE_PX, sides[0] * MAX_RATIO)
