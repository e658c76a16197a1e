"""How large a conversation is taken to be: a guess by its characters, set right by what a real call used."""

import pytest

from agentcore.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, tokens_of, tokens_of_fixed
from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import ToolDefinition
from agentcore.transcript import Transcript

IMAGE = Image(blob="0" * 64, media_type="image/png", size_bytes=5_000_000, width=9, height=9)
FIXED = 500


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (Text(text=""), 0),
        (Text(text="12345678"), 2),
        (Text(text="123456789"), 3),
        (Thinking(text="1234", signature="5678", provider="p", model="m"), 2),
        (ToolCall(id="c", name="ls", input={"path": "a"}), 4),  # ls{"path":"a"}
        (ToolCall(id="c", name="read", input=None), 2),
        (ToolResult(call_id="c", content="1234"), 9),
        (ToolResult(call_id="c", content="", attachments=(IMAGE,)), 8 + IMAGE_TOKENS),
        (IMAGE, IMAGE_TOKENS),
        (Document(blob="0" * 64, media_type="application/pdf", size_bytes=400_000), 4 * DOCUMENT_TOKENS),
        (Document(blob="0" * 64, media_type="application/pdf", size_bytes=4), DOCUMENT_TOKENS),
        (Opaque(provider="p", model="m", raw={"a": "12"}), 3),
    ],
)
def test_a_block_is_a_quarter_of_its_characters(block: Block, tokens: int) -> None:
    assert tokens_of([block]) == tokens


def test_prompt_and_tools_are_part_of_every_request() -> None:
    tool = ToolDefinition(name="t", description="d" * 40, input_schema={})
    assert tokens_of_fixed("12345", ()) == 2
    assert tokens_of_fixed("12345", (tool,)) == 2 + -(-len(tool.model_dump_json()) // 4)


def test_until_a_call_was_measured_everything_is_a_guess() -> None:
    transcript = talked("12345678", "1234")
    assert size(transcript) == FIXED + 3


def test_what_a_call_used_counts_and_what_came_since_is_added() -> None:
    transcript = talked("12345678", "1234")
    transcript.add_user("u", (Text(text="1234"),))
    transcript.measure(10_000)
    assert size(transcript) == 10_000
    transcript.add_assistant(answer("1234" * 9, ToolCall(id="c", name="ls", input={})))
    assert size(transcript) == 10_000  # the answer was part of what the call used
    transcript.add_result(ToolResult(call_id="c", content="1234"))
    assert size(transcript) == 10_009
    transcript.add_user("v", (Text(text="1234" * 3),))
    assert size(transcript) == 10_012
    transcript.add_assistant(answer("1234"))
    assert size(transcript) == 10_013  # a call that broke off has used nothing that is known


def test_a_call_without_an_answer_or_without_a_count_is_no_reason_to_forget() -> None:
    transcript = talked("12345678")
    transcript.measure(10_000)
    transcript.add_user("u", (Text(text="1234"),))
    transcript.measure(0)
    transcript.add_assistant(answer("1234"))
    assert size(transcript) == 10_002


@pytest.mark.parametrize("kept", [(), ("a1",), ("m1", "a1")])
def test_after_a_compaction_it_is_a_guess_again(kept: tuple[str, ...]) -> None:
    transcript = talked("12345678", "1234", "1234", "1234")
    transcript.measure(10_000)
    transcript.encoded["x"] = b"y"
    transcript.compact(Message(id="s", role="user", content=(Text(text="1234" * 5),)), kept)
    assert size(transcript) == FIXED + 5 + len(kept)
    assert transcript.encoded == {}
    transcript.clear()
    assert size(transcript) == FIXED


def size(transcript: Transcript) -> int:
    return transcript.tokens(lambda: FIXED)


def talked(*texts: str) -> Transcript:
    """Prompts and answers in turn: m0, a0, m1, a1."""
    transcript = Transcript()
    for number, text in enumerate(texts):
        if number % 2:
            transcript.add_assistant(Message(id=f"a{number // 2}", role="assistant", content=(Text(text=text),)))
        else:
            transcript.add_user(f"m{number // 2}", (Text(text=text),))
    return transcript


def answer(text: str, *calls: ToolCall) -> Message:
    return Message(id="a", role="assistant", content=(Text(text=text), *calls))
