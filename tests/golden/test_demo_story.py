"""The demo, event by event: what a newcomer sees. `python -m tests.golden.test_demo_story` writes it anew."""

import json
import re
import sys
from pathlib import Path

import anyio
import pytest

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.session import Settings
from server.hub import Hub
from server.schemas import AnswerBody

pytestmark = pytest.mark.anyio

STORY = Path(__file__).with_name("demo.jsonl")
ONE_OF_A_KIND = {"session", "ts", "request_ms", "ttft_ms", "thinking_ms", "duration_ms"}
NAMED = re.compile(r"(msg|prompt|run|call)_[a-z2-7]{16}")
HIDDEN = {"text_delta", "thinking_delta", "tool_call_delta", "tool_output_delta"}
"""How a text is cut into deltas, and how many of them there are, is nobody's promise."""


async def play(root: Path) -> list[str]:
    """Run the demo with one allowed command; return its durable events without what differs from run to run."""
    (root / "work").mkdir()
    config = AppConfig(
        roots=((root / "work").resolve(),),
        data_dir=root / "data",
        state_dir=root / "state",
        config_dir=root / "config",
        model="scripted/demo",
        environ={"PATH": "/usr/bin:/bin"},
    )
    lines: list[str] = []
    async with anyio.create_task_group() as tasks:
        hub = Hub(App(config), tasks)
        live = await hub.create((root / "work").resolve(), Settings(mode="accept-edits"))
        live.agent.log.listen(lambda seq, kind, line: lines.append(line.decode()) if kind not in HIDDEN else None)
        live.prompt("Show me.")
        with anyio.fail_after(30):
            while live.is_busy:
                for request in live.requests.open:
                    live.answer(request.request_id, AnswerBody(allow=True, digest=request.digest))
                await anyio.sleep(0.005)
        live.finish()
        tasks.cancel_scope.cancel()
    return normalised(lines)


def normalised(lines: list[str]) -> list[str]:
    """Numbers count from 1, ids are named in the order of their appearance, times are left out."""
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"{match[1]}_{len(names) + 1}")

    story = []
    for number, line in enumerate(lines, 1):
        event = json.loads(NAMED.sub(renamed, line))
        event["seq"] = number
        kept = {name: value for name, value in event.items() if name not in ONE_OF_A_KIND}
        story.append(json.dumps(kept, ensure_ascii=False))
    return story


async def test_the_story_is_told_as_before(tmp_path: Path) -> None:
    told = await play(tmp_path)
    assert told == STORY.read_text().splitlines()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        STORY.write_text("\n".join(anyio.run(play, Path(folder))) + "\n")
    sys.stdout.write(f"{STORY.name} is written; read the difference before you commit it\n")
