"""A reader who was cut off misses nothing: not by a lost connection, not by a killed server."""

import random
from pathlib import Path

from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import Frame, asked, is_event, new_session, stream, until
from agentcore_selfcheck.verdicts import Say, demand

_STORY = {"turns": [{"thinking": "Let me see.", "text": "One word after the other. " * 20}]}
_PROMPTS, _CUTS = 12, 40
_FOR_DISPLAY = frozenset({"text_delta", "thinking_delta", "tool_call_delta", "tool_output_delta", "waiting"})
"""Events that are not kept: a restart may lose them, and the stream then says so."""


async def replay(folder: Path, say: Say) -> str:
    async with Server.running(folder, _STORY) as server:
        async with server.client() as http:
            session = await new_session(http)
            async with stream(http, session) as frames:
                seen = []
                for number in range(_PROMPTS):
                    say(f"prompt {number + 1} of {_PROMPTS}")
                    await asked(http, "POST", f"/v1/sessions/{session}/prompt", 202, text=f"prompt {number}")
                    seen += await until(frames, is_event("done"), "the end of a run")
                    seen += await until(frames, is_event("status"), "the end of a run")
            whole = [frame for frame in seen if frame.id is not None]
            for cut in range(_CUTS):
                say(f"connecting with an old cursor, {cut + 1} of {_CUTS}")
                at = random.randrange(len(whole) - 1)  # noqa: S311 - any place will do; nothing is kept secret by it
                _compare(whole[at + 1 :], await _rest(server, session, whole[at], whole[-1]))
        say("SIGKILL, then an old cursor again")
        await server.restart()
        async with server.client() as http:
            await asked(http, "POST", "/v1/sessions", 201, resume=session)
        kept = [frame for frame in whole if frame.event not in _FOR_DISPLAY]
        after = await _rest(server, session, kept[0], kept[-1])
        _compare(kept[1:], [frame for frame in after if frame.event not in _FOR_DISPLAY])
        return f"{_CUTS} times cut off and once killed in {len(whole)} events: 0 missing, 0 twice, 0 changed"


async def _rest(server: Server, session: str, cursor: Frame, last: Frame) -> list[Frame]:
    async with server.client() as http, stream(http, session, after=cursor.id) as frames:
        seen = await until(frames, lambda one: one.id == last.id, "the replay")
        return [frame for frame in seen if frame.id is not None]


def _compare(expected: list[Frame], found: list[Frame]) -> None:
    numbers = [frame.id for frame in found]
    missing = len({frame.id for frame in expected} - set(numbers))
    twice = len(numbers) - len(set(numbers))
    demand(found == expected, f"of {len(expected)} events {missing} were missing, {twice} came twice")
