"""Skills that an agent's file names: its subagents begin with them, and what cannot be loaded is told."""

from pathlib import Path

import pytest

from agentcore.events import Notice, NumberedEvent, UserMessage
from tests.core.test_guard_runs import guarding
from tests.core.test_subagents import agent_file, ends, of, task
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio


def skill_file(root: Path, name: str, body: str = "Be brief.", head: str = "") -> None:
    path = root / "home" / ".claude" / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\ndescription: About {name}.\n{head}\n---\n{body}\n")


def notices(events: list[NumberedEvent]) -> list[tuple[str, str]]:
    return [(event.code, event.text) for event in events if isinstance(event, Notice)]


def first_texts(home: House, request: int = 1) -> list[str]:
    """Of the message that a subagent began with."""
    [message] = home.provider.requests[request].messages
    return [getattr(block, "text", "") for block in message.content]


@pytest.mark.parametrize("limits", ["", "tools: Read", "disallowedTools: Skill"])
async def test_a_subagent_begins_with_the_skills_of_its_file_and_then_its_task(tmp_path: Path, limits: str) -> None:
    skill_file(tmp_path, "style", "Write short sentences.")
    skill_file(tmp_path, "names", "Name things well.")
    agent_file(tmp_path, "writer", f"skills: [style, /names]\n{limits}")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task("Write.", kind="writer"), say("Written."), say("Done."))
        events = await home.run(live, "go")
        style, names, prompt = first_texts(home)
    assert "This is the skill style: follow it." in style
    assert "Write short sentences." in style
    assert "Name things well." in names
    assert prompt == "Write."
    [begun] = [event for event in of(events, "writer-1") if isinstance(event, UserMessage)]
    assert begun.display_text == "Write."
    assert (notices(events), ends(events)["t1"].output) == ([], "Written.")


async def test_what_a_skill_forbids_is_forbidden_to_the_subagent(tmp_path: Path) -> None:
    skill_file(tmp_path, "careful", head="disallowed-tools: Bash(touch *)")
    agent_file(tmp_path, "writer", "skills: careful")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        command = use(call("bash", "c1", command="touch made"))
        home.provider.script(task(kind="writer"), command, say("No."), say("Done."))
        events = await home.run(live, "go")
    assert ends(events)["writer-1_c1"].is_error
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(
    ("head", "body", "rules", "why"),
    [
        ("", "!`make x`", "", "it runs `make x`, which no permission rule allows"),
        ("disable-model-invocation: true", "x", "", "only people may call it"),
        ("", "x", 'deny = ["Skill(style)"]', "a permission rule forbids it"),
        ("", "x", 'ask = ["Skill(style)"]', "a permission rule forbids it or would have asked"),
        ("", "x", 'deny = ["Skill"]', "a permission rule forbids it"),
        (None, "", "", "There is no skill 'style'"),
    ],
)
async def test_what_cannot_be_loaded_is_left_out_and_told_once(
    tmp_path: Path, head: str | None, body: str, rules: str, why: str
) -> None:
    if head is not None:
        skill_file(tmp_path, "style", body, head)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(f"[permissions]\n{rules}\n")
    agent_file(tmp_path, "writer", "skills: style")
    async with house(tmp_path) as home:
        live = await home.session()
        second = task("Again.", kind="writer", call_id="t2")
        home.provider.script(task("Write.", kind="writer"), say("1"), second, say("2"), say("Done."))
        events = await home.run(live, "go")
        assert first_texts(home) == ["Write."]
    [(code, text)] = notices(events)
    assert (code, text.startswith("The agent writer names skills. "), why in text) == ("skill_ignored", True, True)
    assert [end.output for end in ends(events).values()] == ["1", "2"]


async def test_a_skill_passes_the_guard(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    skill_file(tmp_path, "style", "Ask jane@example.com.")
    agent_file(tmp_path, "writer", "skills: style")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(task("Write.", kind="writer"), say("Written."), say("Done."))
        await home.run(live, "go")
        skill, _ = first_texts(home)
    assert ("jane" in skill, " REDACTED]." in skill) == (False, True)
