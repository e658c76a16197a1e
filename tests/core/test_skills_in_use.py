"""What the skills that a run uses bring to it until it ends: rules, hooks, a model; and what is left after a crash."""

from pathlib import Path

import anyio
import pytest

from agentcore.events import ModelStart, Notice, NumberedEvent, PermissionRequest, ToolEnd
from agentcore.messages import ToolCall
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import of_kind, script
from tests.fakes import FakeProvider, House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio


def put(home: House, name: str, head: str, *, personal: bool = True) -> None:
    top = home.root / ("home" if personal else "work")
    file = top / ".claude/skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\ndescription: d\n{head}\n---\nDo it.\n")


def load(name: str) -> ToolCall:
    return call("skill", f"load-{name}", name=name)


def touch(name: str) -> ToolCall:
    return call("bash", f"touch-{name}", command=f"touch {name}")


def asked(home: House, live: LiveSession) -> list[str]:
    return [event.call_id for event in of_kind(home.events(live), PermissionRequest)]


def told(home: House, live: LiveSession) -> list[tuple[str, str]]:
    notices = of_kind(home.events(live), Notice)
    return [(event.code, event.text) for event in notices if event.code != "command_not_covered"]


NO = [AnswerBody(allow=False)]


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_user", [True, False])
async def test_what_a_skill_of_the_users_own_allows_counts_until_the_run_ends(tmp_path: Path, by_user: bool) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash(touch *)")
        live = await home.session()
        calls = [] if by_user else [use(load("s"))]
        home.provider.script(*calls, use(touch("one")), use(call("bash", "other", command="mkdir x")), say("done"))
        await home.run(live, "/s" if by_user else "go", NO)
        assert asked(home, live) == ["other"]
        home.provider.script(use(touch("two")), say("done"))
        await home.run(live, "and now?", NO)
        assert asked(home, live) == ["other", "touch-two"]
    assert (tmp_path / "work/one").exists()


async def test_a_skill_of_the_repository_allows_nothing_and_forbids(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash\ndisallowed-tools: Bash(touch two)", personal=False)
        live = await home.session(mode="yolo")
        home.provider.script(use(touch("two"), load("s"), touch("two")), say("done"))
        events = await home.run(live, "go")
        assert [end.is_error for end in of_kind(events, ToolEnd)] == [False, False, True]
        live = await home.session()
        home.provider.script(use(load("s")), use(touch("one")), say("done"))
        await home.run(live, "go", NO)
        assert asked(home, live) == ["touch-one"]


async def test_what_a_skill_forbids_is_forbidden_until_the_run_ends_and_a_broken_rule_forbids_all_it_may_mean(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "disallowed-tools: ['Write', 'Bash(']")
        live = await home.session(mode="yolo")
        write = call("write", "w", file_path="a", content="x")
        home.provider.script(use(load("s"), write, touch("one")), say("done"))
        events = await home.run(live, "go")
        assert [end.is_error for end in of_kind(events, ToolEnd)] == [False, True, True]
        [(code, text)] = told(home, live)
        assert (
            code,
            text.startswith("The skill s has a rule in `disallowed-tools` that cannot be read, Bash(: it "),
        ) == (
            "skill_ignored",
            True,
        )
        home.provider.script(use(touch("one")), say("done"))
        [end] = of_kind(await home.run(live, "and now?"), ToolEnd)
        assert not end.is_error


async def test_after_a_crash_what_a_skill_allows_is_gone_and_what_it_forbids_is_not(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash(touch *), Write\ndisallowed-tools: Bash(touch two)")
        live = await home.session()
        home.provider.script(use(load("s")), use(touch("one")), use(call("bash", "ask", command="mkdir x")))
        live.prompt("go")
        await home.until_asked(live)
    assert (tmp_path / "work/one").exists()
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        home.provider.script(use(touch("two")), use(touch("three")), say("done"))
        again.answer("perm-1", AnswerBody(allow=False))
        assert (await home.until_asked(again)).request_id == "perm-2"
        again.answer("perm-2", AnswerBody(allow=False))
        await home.until_idle(again)
        ends = {end.call_id: end for end in of_kind(home.events(again), ToolEnd)}
        assert "forbids" in ends["touch-two"].output
        assert asked(home, again) == ["touch-three"]


async def test_a_suspended_run_goes_on_with_what_its_skills_allow(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash(touch *)")
        live = await home.session(unattended="defer")
        home.provider.script(use(load("s")), use(call("bash", "ask", command="mkdir x")))
        await home.run(live, "go")
        home.provider.script(use(touch("one")), say("done"))
        live.answer("perm-1", AnswerBody(allow=False))
        await home.until_idle(live)
        assert asked(home, live) == ["ask"]
    assert (tmp_path / "work/one").exists()


async def test_a_skill_that_was_not_used_brings_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash(touch *)")
        file = home.root / "home/.claude/skills/s/SKILL.md"
        file.write_text(file.read_text() + "!`mkdir no`\n")
        live = await home.session()
        home.provider.script(use(touch("one")), say("done"))
        await home.run(live, "/s", NO)
        assert asked(home, live) == ["touch-one"]


# --- the model ----------------------------------------------------------------------------------------------------


def models(home: House, live: LiveSession) -> list[str]:
    return [event.model for event in of_kind(home.events(live), ModelStart)]


@pytest.mark.parametrize("by_user", [True, False])
async def test_a_skill_chooses_the_model_and_its_effort_until_the_run_ends(tmp_path: Path, by_user: bool) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "model: scripted/other\neffort: high")
        live = await home.session(effort="low")
        calls = [] if by_user else [use(load("s"))]
        home.provider.script(*calls, use(call("ls", "l")), say("done"), say("again"))
        await home.run(live, "/s" if by_user else "go")
        await home.run(live, "and now?")
        others, first = ["fake/other"] * 2, [] if by_user else ["fake/fake"]
        assert models(home, live) == [*first, *others, "fake/fake"]
        efforts = [request.effort for request in home.provider.requests]
        assert efforts == [*(["low"] * len(first)), "high", "high", "low"]
        assert told(home, live) == []


@pytest.mark.parametrize(
    ("head", "personal", "why"),
    [
        ("model: sonnet", True, "asks for the model sonnet, which cannot be asked: A model is named provider/model"),
        ("model: nobody/x", True, "asks for the model nobody/x, which cannot be asked: There is no provider"),
        ("effort: enormous", True, "asks for an effort that is none of low, medium, high, xhigh, max: enormous."),
        ("model: scripted/other", False, "comes with the repository: it does not choose the model or its effort."),
        ("effort: max", False, "comes with the repository: it does not choose the model or its effort."),
        ("context: fork", True, "is meant for a subagent (`context: fork`, `agent`), and is followed in this run"),
        ("agent: explore", True, "is meant for a subagent (`context: fork`, `agent`), and is followed in this run"),
    ],
)
async def test_what_a_head_asks_for_in_vain_is_told_once_and_the_skill_is_used(
    tmp_path: Path, head: str, personal: bool, why: str
) -> None:
    async with house(tmp_path) as home:
        put(home, "s", head, personal=personal)
        live = await home.session()
        home.provider.script(use(load("s")), say("done"))
        await home.run(live, "/s")
        [(code, text)] = told(home, live)
        assert (code, text.startswith(f"The skill s {why}")) == ("skill_ignored", True)
        assert set(models(home, live)) == {"fake/fake"}
        assert {request.effort for request in home.provider.requests} == {None}


async def test_inherit_is_the_model_that_the_run_has(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "model: inherit")
        live = await home.session()
        await home.run(live, "/s")
        assert (models(home, live), told(home, live)) == (["fake/fake"], [])


async def test_a_run_with_a_schema_stays_with_its_model(tmp_path: Path) -> None:
    other = FakeProvider("other")
    async with house(tmp_path, fallbacks=[other]) as home:
        put(home, "s", "model: other/m")
        live = await home.session()
        home.provider.script(use(load("s")), say('{"a": 1}'))
        live.prompt("go", output_schema={"type": "object"})
        await home.until_idle(live)
        assert models(home, live) == ["fake/fake"] * 2


# --- hooks --------------------------------------------------------------------------------------------------------

HOOKS = "hooks: {PreToolUse: [{matcher: Bash, hooks: [{type: command, command: '%s', timeout: 5%s}]}]}"


async def test_the_hooks_of_a_skill_run_while_its_run_lasts(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        line = script(home.root, "deny.sh", "#!/bin/bash\necho ran >> hook.log; echo no touching >&2; exit 2\n")
        put(home, "s", HOOKS % (line, ""))
        live = await home.session(mode="yolo")
        home.provider.script(use(touch("zero"), load("s"), touch("one"), touch("two")), say("done"))
        events = await home.run(live, "go")
        assert [end.is_error for end in of_kind(events, ToolEnd)] == [False, False, True, True]
        home.provider.script(use(touch("three")), say("done"))
        await home.run(live, "and now?")
        assert told(home, live) == []
    assert (tmp_path / "work/hook.log").read_text() == "ran\nran\n"
    assert (tmp_path / "work/three").exists()


async def test_a_hook_that_is_to_run_once_runs_once_in_a_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", HOOKS % ("echo ran >> hook.log", ", once: true"))
        live = await home.session(mode="yolo")
        for _ in range(2):
            home.provider.script(use(load("s"), touch("one"), touch("two")), say("done"))
            await home.run(live, "go")
    assert (tmp_path / "work/hook.log").read_text() == "ran\nran\n"


async def test_the_hooks_of_a_repositorys_skill_wait_for_a_person(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", HOOKS % ("echo ran >> hook.log", ""), personal=False)
        work = (tmp_path / "work").resolve()

        async def run() -> list[tuple[str, str]]:
            live = await home.session(mode="yolo")
            home.provider.script(use(touch("one")), say("done"))
            await home.run(live, "/s")
            return told(home, live)

        text = "1 hook waits for approval before it runs (of the skill s): see agentcore hooks."
        assert await run() == [("approval_needed", text)]
        assert not (work / "hook.log").exists()
        [waiting] = await home.app.find_approvals([work])
        assert (waiting.title, waiting.source) == ("hook PreToolUse (Bash)", ".claude/skills/s/SKILL.md")
        await home.app.decide_approval([work], waiting.id, allow=True)
        assert await run() == []
        assert (work / "hook.log").read_text() == "ran\n"


async def test_who_turned_hooks_off_has_those_of_skills_off(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/settings.toml").write_text("disable_all_hooks = true\n")
    async with house(tmp_path) as home:
        put(home, "s", HOOKS % ("echo ran >> hook.log", ""))
        live = await home.session(mode="yolo")
        home.provider.script(use(touch("one")), say("done"))
        await home.run(live, "/s")
    assert not (tmp_path / "work/hook.log").exists()


async def test_a_cancelled_run_leaves_nothing_of_its_skills(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "allowed-tools: Bash(touch *)\nmodel: scripted/other")
        live = await home.session()
        home.provider.script(Turn(opens=anyio.Event()))
        live.prompt("/s")
        await home.until(live, ModelStart)
        live.cancel()
        await home.until_idle(live)
        home.provider.script(use(touch("one")), say("done"))
        await home.run(live, "and now?", NO)
        assert (asked(home, live), models(home, live)) == (
            ["touch-one"],
            ["fake/other", "fake/fake", "fake/fake"],
        )


# --- skills that come with files ----------------------------------------------------------------------------------


def nest(home: House, name: str, head: str = "") -> None:
    file = home.root / "work/pkg/.claude/skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\ndescription: About {name}\n{head}\n---\nDo {name}.\n")


def read(path: str) -> ToolCall:
    return call("read", f"read-{path}", file_path=path)


def listed(events: list[NumberedEvent]) -> list[list[str]]:
    """The lines about skills behind each result."""
    outputs = [end.output for end in of_kind(events, ToolEnd)]
    return [[line for line in output.split("\n") if line.startswith("- ")] for output in outputs]


async def test_skills_of_a_folder_below_come_with_its_first_file_and_the_prompt_stays_as_it_is(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "s", "")
        nest(home, "deep")
        nest(home, "quiet", "disable-model-invocation: true")
        for name in ("top.txt", "pkg/a.txt", "pkg/b.txt"):
            (home.root / "work" / name).write_text("x\n")
        live = await home.session()
        home.provider.script(
            use(read("top.txt")), use(read("pkg/a.txt")), use(read("pkg/b.txt"), load("deep")), say("done")
        )
        events = await home.run(live, "go")
        line = "- deep: (pkg/.claude/skills/deep/SKILL.md) About deep"
        assert listed(events) == [[], [line], [], []]
        assert "Do deep." in of_kind(events, ToolEnd)[-1].output
        assert len({request.system for request in home.provider.requests}) == 1
        assert all(request.tools == home.provider.requests[0].tools for request in home.provider.requests)
        home.provider.script(say("done"))
        await home.run(live, "/quiet")
        assert 'name="quiet"' in str(home.provider.requests[-1].messages[-1].content)


async def test_a_skill_for_certain_files_is_told_of_with_the_first_of_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        put(home, "web", "paths: 'src/**/*.{ts,tsx}, *.css'")
        put(home, "theirs", "paths: [docs/**]", personal=False)
        for name in ("src/a.py", "src/b/c.tsx", "x.css", "docs/a.md"):
            (home.root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
            (home.root / "work" / name).write_text("x\n")
        live = await home.session()
        calls = [read(name) for name in ("src/a.py", "src/missing.ts", "src/b/c.tsx", "x.css", "docs/a.md")]
        home.provider.script(*map(use, calls), say("done"))
        events = await home.run(live, "go")
        shown = str(tmp_path.resolve() / "home/.claude/skills/web/SKILL.md")
        assert listed(events) == [
            [],
            [],
            [f"- web: ({shown}) d"],
            [],
            ["- theirs: (.claude/skills/theirs/SKILL.md) d"],
        ]
        assert "- web" not in home.provider.requests[0].system
        live.clear()
        home.provider.script(use(read("x.css")), say("done"))
        assert listed(await home.run(live, "anew")) == [[f"- web: ({shown}) d"]]


async def test_a_broken_skill_of_a_folder_below_is_told(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        nest(home, "bad", "- broken")
        (home.root / "work/pkg/a.txt").write_text("x\n")
        live = await home.session()
        home.provider.script(use(read("pkg/a.txt")), say("done"))
        events = await home.run(live, "go")
        assert listed(events) == [[]]
        [(code, text)] = told(home, live)
        assert (code, text.startswith("pkg/.claude/skills/bad/SKILL.md:")) == ("instructions_ignored", True)


async def test_what_a_skill_of_a_folder_below_forbids_is_forbidden_after_a_crash(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        nest(home, "deep", "disallowed-tools: Bash(touch two)")
        (home.root / "work/pkg/a.txt").write_text("x\n")
        live = await home.session()
        home.provider.script(use(read("pkg/a.txt")), use(load("deep")), use(call("bash", "ask", command="mkdir x")))
        live.prompt("go")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        home.provider.script(use(touch("two")), say("done"))
        again.answer("perm-1", AnswerBody(allow=False))
        await home.until_idle(again)
        assert "forbids" in of_kind(home.events(again), ToolEnd)[-1].output
