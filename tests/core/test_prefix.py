"""The bytes of messages are made once, whatever the vendor, and none is lost when older ones become one piece."""

import random
from collections.abc import Callable

import pytest

from agentcore.messages import Block, Message, Text, Thinking
from agentcore.ports.models import ModelRequest
from agentcore.providers.prefix import NEWER_MESSAGES, encoded_messages, joined, withhold

MANY = 5 * NEWER_MESSAGES


def message(number: int, *blocks: Block) -> Message:
    return Message(id=f"m{number}", role="user", content=blocks or (Text(text=f"text {number}"),))


def request(messages: list[Message], encoded: dict[str, bytes], model: str = "m") -> ModelRequest:
    return ModelRequest(model=model, system="", tools=(), messages=messages, encoded=encoded)


class Encoder:
    """Writes the texts of a message; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, message: Message) -> bytes:
        self.asked.append(message.id)
        return ",".join(block.text for block in message.content if isinstance(block, Text | Thinking)).encode()


def whole(request: ModelRequest, encode: Callable[[Message], bytes], provider: str = "lab") -> bytes:
    older, newer = encoded_messages(request, provider, encode)
    return joined([older, *newer])


def plain(messages: list[Message]) -> bytes:
    """All of it, made anew."""
    return b",".join(filter(None, map(Encoder(), messages)))


def test_a_growing_conversation_is_encoded_once_and_whole_every_time() -> None:
    encode, encoded, messages = Encoder(), dict[str, bytes](), list[Message]()
    for number in range(MANY):
        messages.append(message(number))
        before = list(messages)
        older, newer = encoded_messages(request(messages, encoded), "lab", encode)
        assert joined([older, *newer]) == plain(messages)
        assert messages == before
        assert 1 <= len(newer) < 2 * NEWER_MESSAGES
        assert len(encoded) <= 2 * NEWER_MESSAGES
    assert encode.asked == [one.id for one in messages]


@pytest.mark.parametrize("at_once", [1, NEWER_MESSAGES, 2 * NEWER_MESSAGES - 1, 2 * NEWER_MESSAGES, MANY])
def test_a_conversation_that_was_loaded_is_encoded_at_once(at_once: int) -> None:
    encode, encoded = Encoder(), dict[str, bytes]()
    messages = [message(number) for number in range(at_once)]
    for _ in range(2):
        assert whole(request(messages, encoded), encode) == plain(messages)
    assert encode.asked == [one.id for one in messages]


def test_the_newer_ones_are_the_last_messages_one_by_one() -> None:
    encoded: dict[str, bytes] = {}
    messages = [message(number) for number in range(MANY)]
    for _ in range(2):
        _, newer = encoded_messages(request(messages, encoded), "lab", Encoder())
        assert newer == [Encoder()(one) for one in messages[-len(newer) :]]


def test_messages_of_which_nothing_may_be_sent_leave_no_trace() -> None:
    encoded: dict[str, bytes] = {}
    messages = [message(number, Text(text="" if number % 3 else f"{number}")) for number in range(MANY)]
    for _ in range(2):
        assert whole(request(messages, encoded), Encoder()) == plain(messages)


def test_providers_and_models_have_bytes_of_their_own() -> None:
    encoded: dict[str, bytes] = {}
    messages = [message(number) for number in range(MANY)]
    for provider, model in [("lab", "m"), ("lab", "n"), ("other", "m")]:
        encode = Encoder()
        assert whole(request(messages, encoded, model), encode, provider) == plain(messages)
        assert len(encode.asked) == MANY
    for provider, model in [("lab", "m"), ("lab", "n"), ("other", "m")]:
        encode = Encoder()
        whole(request(messages, encoded, model), encode, provider)
        assert encode.asked == []


def test_a_conversation_that_was_cut_back_is_whole_all_the_same() -> None:
    encoded: dict[str, bytes] = {}
    messages = [message(number) for number in range(MANY)]
    whole(request(messages, encoded), Encoder())
    for left in (MANY - 1, MANY - NEWER_MESSAGES, MANY - NEWER_MESSAGES - 1, 3, 1):
        assert whole(request(messages[:left], encoded), Encoder()) == plain(messages[:left])


def thought(number: int) -> Message:
    return message(number, Thinking(text=f"hm {number}", provider="lab", model="m"), Text(text=f"text {number}"))


def is_thinking(block: Block) -> bool:
    return isinstance(block, Thinking)


def without_thinking(messages: list[Message]) -> list[Message]:
    return [
        one.model_copy(update={"content": tuple(block for block in one.content if not is_thinking(block))})
        for one in messages
    ]


@pytest.mark.parametrize("size", [3, NEWER_MESSAGES, MANY])
def test_what_was_withheld_stays_so_and_later_messages_are_whole(size: int) -> None:
    encode, encoded = Encoder(), dict[str, bytes]()
    messages = [thought(number) for number in range(size)]
    whole(request(messages, encoded), encode)
    assert withhold(request(messages, encoded), "lab", encode, is_thinking)
    for number in range(size, size + 2 * NEWER_MESSAGES):
        assert whole(request(messages, encoded), encode) == plain(
            [*without_thinking(messages[:size]), *messages[size:]]
        )
        messages = [*messages, thought(number)]


def test_withholding_tells_whether_it_changes_anything() -> None:
    encode, encoded = Encoder(), dict[str, bytes]()
    messages = [message(1), thought(2)]
    assert not withhold(request(messages[:1], encoded), "lab", encode, is_thinking)
    assert withhold(request(messages, encoded), "lab", encode, is_thinking)
    assert not withhold(request(messages, encoded), "lab", encode, is_thinking)
    assert withhold(request([*messages, thought(3)], encoded), "lab", encode, is_thinking)


def test_withholding_from_one_model_leaves_the_bytes_of_others() -> None:
    encode, encoded = Encoder(), dict[str, bytes]()
    messages = [thought(number) for number in range(MANY)]
    for model in ("m", "n"):
        whole(request(messages, encoded, model), encode)
    withhold(request(messages, encoded, "m"), "lab", encode, is_thinking)
    assert whole(request(messages, encoded, "m"), encode) == plain(without_thinking(messages))
    assert whole(request(messages, encoded, "n"), encode) == plain(messages)


@pytest.mark.parametrize("seed", range(20))
def test_a_random_walk_is_whole_at_every_step(seed: int) -> None:
    print("seed", seed)
    chance, encode, encoded = random.Random(seed), Encoder(), dict[str, bytes]()
    messages, shown = list[Message](), list[Message]()
    for number in range(400):
        step = chance.random()
        if step < 0.02:
            withhold(request(messages, encoded), "lab", encode, is_thinking)
            shown = without_thinking(shown)
        else:
            new = thought(number) if step < 0.5 else message(number, Text(text="" if step < 0.6 else f"{number}"))
            messages, shown = [*messages, new], [*shown, new]
        if messages and chance.random() < 0.7:
            assert whole(request(messages, encoded), encode) == plain(shown)
