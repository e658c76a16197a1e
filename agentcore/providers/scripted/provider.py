"""The provider `scripted`: answers each model call with the next turn of a script.

Which turn to play is read off the request, as the number of answers since the last prompt. The same transcript gets
the same answer, before and after a restart. A request for a summary is answered with the script's `summary`, else with
what was said. `ModelRequest.model` is `demo` or the path of a file. The one thing that is remembered is how often a
turn with `fail_times` has failed.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial

import anyio
from anyio import to_thread
from pydantic_core import to_json

from agentcore.compaction.words import COMPACTED, NOTE_TAG, REQUEST_TAG
from agentcore.errors import ProviderError
from agentcore.messages import Block, Message, Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.scripted.script import Script, ScriptedTurn, load_script
from agentcore.usage import Usage
from agentcore.wiretap import Sent, tell

_NOT_A_PROMPT = (NOTE_TAG, REQUEST_TAG, "<task-notification>", "<hook-feedback>")
"""Texts that the system adds by itself to what a person said."""
_WORDS = re.compile(r"\s*\S+|\s+")
_WATCHED_CHARS = 24
"""Where a script pauses between pieces, somebody watches: a few words at a time, of together this length."""
_OVER = ScriptedTurn(text="The script has no further turn for this prompt.")
_PLACE_LOST = ScriptedTurn(text="The conversation was compacted, and the script has lost its place in it.")
_NO_SCENE = ScriptedTurn(text="The script has no scene for this prompt.")


class ScriptedProvider:
    """Plays `script`, or the one that each request's model names."""

    name = "scripted"
    is_local = True

    def __init__(self, script: Script | None = None) -> None:
        self._script = script
        self._failures: dict[str, tuple[str, int]] = {}
        """By session: the message that was to be answered last, and how often that failed."""

    def why_not(self) -> str | None:
        return None

    def context_window(self, model: str) -> int | None:
        return None

    def has_structured_output(self, model: str) -> bool:
        return False

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return None

    async def warm(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to close."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamPart]]:
        script = self._script if self._script is not None else await to_thread.run_sync(load_script, request.model)
        tell(partial(_as_sent, request))
        turn = _summary(script, request.messages)
        if turn is None:
            turn = self._this_time(choose_turn(script, request.messages), request)
        parts = _play(turn, request, script.delta_delay_ms / 1000)
        try:
            yield parts
        finally:
            await parts.aclose()

    def _this_time(self, turn: ScriptedTurn, request: ModelRequest) -> ScriptedTurn:
        """What a turn with `fail_times` comes to in this call: its error alone, or all of it but the error."""
        if turn.fail_times is None:
            return turn
        place = request.messages[-1].id if request.messages else ""
        before, failed = self._failures.pop(request.session, ("", 0))
        failed = failed + 1 if before == place else 1
        if failed > turn.fail_times:
            return turn.model_copy(update={"error": None})
        self._failures[request.session] = (place, failed)
        return ScriptedTurn(error=turn.error, ttft_ms=turn.ttft_ms)


def _as_sent(request: ModelRequest) -> Sent:
    """What a real service would be sent, in our own words."""
    body = {
        "model": request.model,
        "system": request.system,
        "tools": [tool.model_dump(mode="json") for tool in request.tools],
        "messages": [message.model_dump(mode="json") for message in request.messages],
    }
    return Sent("scripted:", {}, to_json(body))


def choose_turn(script: Script, messages: Sequence[Message]) -> ScriptedTurn:
    """Return what the script answers to this transcript."""
    prompt, answers = "", 0
    for message in reversed(messages):
        if message.role == "assistant":
            answers += 1
        elif prompt := _prompt_of(message):
            break
    if not prompt and any(_texts_of(message, COMPACTED) for message in messages):
        return _PLACE_LOST
    scene = script.scene_for(prompt)
    if scene is None:
        return _NO_SCENE
    return scene.turns[answers] if answers < len(scene.turns) else _OVER


def _summary(script: Script, messages: Sequence[Message]) -> ScriptedTurn | None:
    """What is answered to the request for a summary; None to any other request."""
    if not messages or not _texts_of(messages[-1], REQUEST_TAG):
        return None
    if script.summary is not None:
        return script.summary
    prompts = [f"- {prompt}" for message in messages if message.role == "user" if (prompt := _prompt_of(message))]
    said = next((message.text for message in reversed(messages) if message.role == "assistant" and message.text), "")
    lines = ["The user asked:", *prompts, "", "The last answer was:", said]
    return ScriptedTurn(text="<summary>\n" + "\n".join(lines).strip() + "\n</summary>")


def _texts_of(message: Message, tag: str) -> list[str]:
    """The texts of a message that begin with a tag."""
    return [block.text for block in message.content if isinstance(block, Text) and block.text.startswith(tag)]


def _prompt_of(message: Message) -> str:
    """What a person said in a user message; empty for one that only carries results and notes."""
    texts = [block.text for block in message.content if isinstance(block, Text)]
    return "\n".join(text for text in texts if text.strip() and not text.lstrip().startswith(_NOT_A_PROMPT))


async def _play(turn: ScriptedTurn, request: ModelRequest, delay_s: float) -> AsyncGenerator[StreamPart, None]:
    await anyio.sleep(turn.ttft_ms / 1000)
    max_chars = _WATCHED_CHARS if delay_s else 0
    for piece in _pieces(turn.thinking, max_chars):
        yield ThinkingPart(piece)
        await anyio.sleep(delay_s)
    for piece in _pieces(turn.text, max_chars):
        yield TextPart(piece)
        await anyio.sleep(delay_s)
    if turn.error:
        raise ProviderError(turn.error.kind, turn.error.message, retry_after_s=turn.error.retry_after_s)
    calls = _calls(turn, request.messages)
    for call in calls:
        yield ToolCallPart(call.id, call.name, 0)
        yield ToolCallPart(call.id, call.name, len(to_json(call.input)))
        await anyio.sleep(delay_s)
    content = (*_said(turn, request.model), *calls)
    yield Finished(content=content, usage=turn.usage, stop=turn.stop or ("tool_use" if calls else "end_turn"))


def _pieces(text: str, max_chars: int) -> Iterator[str]:
    """Cut at the beginnings of words; a piece is longer than `max_chars` only when it is a single word."""
    piece = ""
    for word in _WORDS.findall(text):
        if piece and len(piece) + len(word) > max_chars:
            yield piece
            piece = ""
        piece += word
    if piece:
        yield piece


def _said(turn: ScriptedTurn, model: str) -> list[Block]:
    blocks: list[Block] = []
    if turn.thinking:
        blocks.append(Thinking(text=turn.thinking, provider=ScriptedProvider.name, model=model))
    if turn.text:
        blocks.append(Text(text=turn.text))
    return blocks


def _calls(turn: ScriptedTurn, messages: Sequence[Message]) -> list[ToolCall]:
    """The turn's calls with ids that no other turn of the session has, and inputs of their own."""
    answered = messages[-1].id if messages else "start"
    return [
        ToolCall(id=call.id or f"call_{answered}_{number}", name=call.name, input=deepcopy(call.input))
        for number, call in enumerate(turn.tool_calls, start=1)
    ]
