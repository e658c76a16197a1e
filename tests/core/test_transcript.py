"""Random walks against a small model: every assistant message with calls is followed by exactly its results."""

import itertools
import random

import pytest

from agentcore.messages import Message, Text, ToolCall, ToolResult
from agentcore.transcript import Transcript


def check(messages: tuple[Message, ...]) -> None:
    """What a provider demands of a transcript that is about to be sent."""
    for index, message in enumerate(messages):
        if not message.tool_calls:
            continue
        assert index + 1 < len(messages)
        answers = messages[index + 1]
        assert answers.role == "user"
        results = [block.call_id for block in answers.content if isinstance(block, ToolResult)]
        assert results[: len(message.tool_calls)] == [call.id for call in message.tool_calls]
    roles = [message.role for message in messages]
    assert not any(pair == ("user", "user") for pair in itertools.pairwise(roles))


@pytest.mark.parametrize("seed", range(50))
def test_no_walk_reaches_a_transcript_that_cannot_be_sent(seed: int) -> None:
    walk, transcript, ids = random.Random(seed), Transcript(), iter(range(10_000))
    for _ in range(200):
        open_calls = list(transcript.open_calls)
        if open_calls:
            call = walk.choice(open_calls)
            transcript.add_result(ToolResult(call_id=call.id, content="r"))
        elif walk.random() < 0.5:
            transcript.add_user(f"m{next(ids)}", (Text(text="u"),))
        else:
            calls = tuple(ToolCall(id=f"c{next(ids)}", name="ls", input={}) for _ in range(walk.randrange(4)))
            transcript.add_assistant(Message(id=f"m{next(ids)}", role="assistant", content=(Text(text="a"), *calls)))
        if not transcript.open_calls:
            check(transcript.messages)


BREAKING = {
    "a user message": lambda transcript: transcript.add_user("u", (Text(text="u"),)),
    "an answer": lambda t: t.add_assistant(Message(id="n", role="assistant", content=(Text(text="x"),))),
    "a second result": lambda transcript: transcript.add_result(ToolResult(call_id="a", content="again")),
    "a foreign result": lambda transcript: transcript.add_result(ToolResult(call_id="z", content="r")),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_would_break_a_pair_is_refused_and_changes_nothing(name: str) -> None:
    transcript = Transcript()
    calls = (ToolCall(id="a", name="ls", input={}), ToolCall(id="b", name="ls", input={}))
    transcript.add_assistant(Message(id="m", role="assistant", content=calls))
    transcript.add_result(ToolResult(call_id="a", content="r"))
    before = transcript.messages
    with pytest.raises(ValueError, match="call"):
        BREAKING[name](transcript)
    assert transcript.messages == before
    assert [call.id for call in transcript.open_calls] == ["b"]
