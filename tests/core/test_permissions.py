"""Permission requests: asked once, answered once, remembered as far as was said."""

from pathlib import Path

import anyio
import pytest

from agentcore.errors import Unprocessable
from agentcore.sandbox import choosing
from agentcore.sandbox.choosing import NoSandbox
from agentcore.settings.private import project_file, user_file
from agentcore.settings.standing import read_standing
from server.live import LiveSession
from server.problems import Problem
from server.requests import Granted
from server.schemas import AnswerBody
from tests.fakes import FakeClock, House, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

ECHO = call("bash", command="echo hi")


async def test_the_request_says_what_would_run_and_why_it_asks(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("write", file_path="a.txt", content="new\n")))
        live.prompt("write")
        request = await home.until_asked(live)
    assert (request.request_id, request.kind, request.tool_name) == ("perm-1", "tool", "write")
    assert request.input == {"file_path": "a.txt", "content": "new\n"}
    assert request.reasons
    assert "+new" in request.display
    assert request.suggested_rules == ("Write(./a.txt)", "Edit(./**)", "Edit")
    assert len(request.digest) == 64


BAD_ANSWERS = [
    (AnswerBody(allow=True, digest="0" * 64), "stale_request"),
    (AnswerBody(allow=True, always=True, scope="once"), "bad_request"),
    (AnswerBody(allow=False, always=True), "bad_request"),
    (AnswerBody(allow=True, expires_in_s=5), "bad_request"),
    (AnswerBody(allow=True, scope="once", expires_in_s=5), "bad_request"),
    (AnswerBody(allow=False, scope="project"), "bad_request"),
    (AnswerBody(allow=True, mode="default"), "bad_request"),
    (AnswerBody(allow=True, answer="yes"), "bad_request"),
    (AnswerBody(allow=False, updated_input={"command": "true"}), "bad_request"),
]


@pytest.mark.parametrize(("body", "code"), BAD_ANSWERS)
async def test_a_bad_answer_changes_nothing(tmp_path: Path, body: AnswerBody, code: str) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO))
        live.prompt("go")
        request = await home.until_asked(live)
        with pytest.raises(Problem) as refused:
            live.answer(request.request_id, body)
        assert refused.value.code == code
        assert live.requests.open == (request,)


async def test_the_second_answer_is_told_how_it_was_resolved(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        live.answer(request.request_id, AnswerBody(allow=True, digest=request.digest))
        with pytest.raises(Problem) as refused:
            live.answer(request.request_id, AnswerBody(allow=False))
        assert (refused.value.code, refused.value.details) == ("already_resolved", {"resolution": "allowed"})
        with pytest.raises(Problem) as unknown:
            live.answer("perm-99", AnswerBody(allow=True))
        assert unknown.value.code == "not_found"


async def test_updated_input_runs_in_place_of_the_calls_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo wrong")), say("Done."))
        events = await home.run(live, "go", [AnswerBody(allow=True, updated_input={"command": "echo right"})])
    start = next(event for event in events if event.type == "tool_start")
    end = next(event for event in events if event.type == "tool_end")
    assert start.input == {"command": "echo right"}
    assert "right" in end.output


@pytest.mark.parametrize("updated", [{"cmd": "x"}, {"command": 1}])
async def test_updated_input_that_does_not_fit_is_refused_before_the_row_is_taken(
    tmp_path: Path, updated: dict[str, object]
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO))
        live.prompt("go")
        request = await home.until_asked(live)
        with pytest.raises(Exception, match="updated_input") as refused:
            live.answer(request.request_id, AnswerBody.model_validate({"allow": True, "updated_input": updated}))
        assert refused.value.code == "unprocessable"
        assert live.requests.open == (request,)


async def test_updated_input_cannot_lead_outside(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("write", file_path="a.txt", content="x")))
        live.prompt("go")
        request = await home.until_asked(live)
        body = AnswerBody(allow=True, updated_input={"file_path": "/etc/cron.d/x", "content": "x"})
        with pytest.raises(Exception, match="outside the project"):
            live.answer(request.request_id, body)


async def test_an_expired_request_is_not_called_a_denial(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(expires_after_s=0.05)
        home.provider.script(use(ECHO), say("Nobody there."))
        events = await home.run(live, "go")
        resolved = [event.resolution for event in events if event.type == "permission_resolved"]
        end = next(event for event in events if event.type == "tool_end")
        assert resolved == ["expired"]
        assert "expired" in end.output
        assert "The user denied" not in end.output
        with pytest.raises(Problem) as late:
            live.answer("perm-1", AnswerBody(allow=True))
        assert late.value.code == "permission_expired"


async def test_an_unattended_session_denies_and_shows_that_it_did(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended="deny")
        home.provider.script(use(ECHO), say("Denied."))
        events = await home.run(live, "go")
    resolved = next(event for event in events if event.type == "permission_resolved")
    end = next(event for event in events if event.type == "tool_end")
    assert (resolved.resolution, resolved.answered_by) == ("denied", "unattended")
    assert "The user" not in end.output
    assert "tool_start" not in kinds(events)


@pytest.mark.parametrize(("scope", "file"), [("project", project_file), ("user", user_file)])
async def test_always_is_written_to_private_settings_and_holds_after_a_restart(tmp_path: Path, scope, file) -> None:
    config = tmp_path / "config"
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO), use(ECHO), say("Twice."))
        events = await home.run(live, "go", [AnswerBody(allow=True, scope=scope)])
        assert kinds(events).count("permission_request") == 1
        await home.app.persist(live.agent, "Bash(echo hi)", for_user=scope == "user")
        written = next(config.rglob("settings.toml"))
        assert [str(rule) for rule in read_standing(config).allow] == ["Bash(echo hi)"]
        assert written.stat().st_mode & 0o777 == 0o600
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO), say("Ran."))
        assert "permission_request" not in kinds(await home.run(live, "go"))


@pytest.mark.parametrize("scope", ["session", "project", "user"])
async def test_a_grant_ends_when_it_was_said_to_end_also_after_a_restart(tmp_path: Path, scope: str) -> None:
    clock = FakeClock()
    expires_at = clock.now() + 60

    async def runs_unasked(home: House, live: LiveSession) -> bool:
        home.provider.script(use(ECHO), say("Ran."))
        return "permission_request" not in kinds(await home.run(live, "go", [AnswerBody(allow=False)]))

    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        home.provider.script(use(ECHO), say("Ran."))
        await home.run(live, "go", [AnswerBody.model_validate({"allow": True, "scope": scope, "expires_in_s": 60})])
        if scope != "session":
            await home.app.persist(live.agent, "Bash(echo hi)", for_user=scope == "user", expires_at=expires_at)
        assert await runs_unasked(home, live)
        assert [rule.expires_at for rule in live.agent.rules()] == [expires_at]
    clock.time += 59
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        assert await runs_unasked(home, live)
        assert [rule.expires_at for rule in live.agent.rules()] == [expires_at]
        clock.time += 1
        assert live.agent.rules() == ()
        assert await home.app.standing_rules() == []
        assert not await runs_unasked(home, live)
    async with house(tmp_path, clock=clock) as home:
        assert not await runs_unasked(home, await home.reload(live.id))


async def test_approving_a_plan_leaves_plan_mode_and_denying_keeps_it(tmp_path: Path) -> None:
    plan = call("exit_plan_mode", plan="1. Look. 2. Change.")
    async with house(tmp_path) as home:
        live = await home.session(mode="plan")
        home.provider.script(use(plan), use(call("exit_plan_mode", "again", plan="Better.")), say("I begin."))
        answers = [AnswerBody(allow=False, reason="too vague"), AnswerBody(allow=True, mode="accept-edits")]
        events = await home.run(live, "plan it", answers)
        requests = [event for event in events if event.type == "permission_request"]
        ends = [event.output for event in events if event.type == "tool_end"]
        updates = [(event.mode, event.by) for event in events if event.type == "session_updated"]
    assert [request.kind for request in requests] == ["plan", "plan"]
    assert "too vague" in ends[0]
    assert updates == [("accept-edits", "perm-2")]
    assert live.state().mode == "accept-edits"


async def test_an_empty_plan_is_refused_without_asking(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="plan")
        home.provider.script(use(call("exit_plan_mode", plan="  ")), say("Hm."))
        events = await home.run(live, "plan it")
    assert "permission_request" not in kinds(events)


@pytest.mark.parametrize("is_confined", [True, False])
async def test_plan_mode_cannot_write_through_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_confined: bool
) -> None:
    """Confined, a command may be allowed, and finds that it cannot write; else it does not even begin."""
    if not is_confined:
        monkeypatch.setattr(choosing, "for_this_system", lambda: NoSandbox("There is none here."))
    async with house(tmp_path) as home:
        live = await home.session(mode="plan")
        if is_confined and not home.app.sandbox.is_available:
            pytest.skip(f"the sandbox cannot run here: {home.app.sandbox.why_not}")
        home.provider.script(use(call("bash", command="touch written")), say("Not now."))
        events = await home.run(live, "plan it", [AnswerBody(allow=True)])
    assert ("tool_start" in kinds(events)) is is_confined
    assert not (tmp_path / "work" / "written").exists()


async def test_mode_counts_at_once_but_open_requests_stay(tmp_path: Path) -> None:
    from agentcore.events import SessionUpdated

    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(ECHO), use(call("bash", "c2", command="echo two")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        live.update(SessionUpdated(mode="yolo"))
        assert live.requests.open == (request,)
        live.answer(request.request_id, AnswerBody(allow=True))
        with anyio.fail_after(5):
            while live.is_busy:
                await anyio.lowlevel.checkpoint()
        assert kinds(home.events(live)).count("permission_request") == 1


async def test_an_answer_behind_the_deadline_is_too_late(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(expires_after_s=1000)
        home.provider.script(use(ECHO))
        live.prompt("go")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        live, _ = await home.hub.load(live.id)
        home.listen(live)
        home.provider.script(say("Nobody was there."))
        live.requests._clock = FakeClock(live.requests.open[0].expires_at)
        with pytest.raises(Problem) as late:
            live.answer("perm-1", AnswerBody(allow=True))
        assert late.value.code == "permission_expired"
        assert kinds(home.events(live)) == ["permission_resolved", "status"]  # it goes on without the answer
        with anyio.fail_after(5):
            while live.is_busy:
                await anyio.lowlevel.checkpoint()
        end = next(event for event in home.events(live) if event.type == "tool_end")
        assert "expired" in end.output


async def test_always_covers_what_ran_and_not_what_was_replaced(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="rm -rf build")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        rule = live.answer(request.request_id, AnswerBody(allow=True, scope="session", updated_input={"command": "ls"}))
        assert rule == Granted("Bash(ls)", None)


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".envrc", "sub/.mcp.json"])
async def test_updated_input_cannot_lead_to_a_protected_path(tmp_path: Path, path: str) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("write", file_path="a.txt", content="x")))
        live.prompt("go")
        request = await home.until_asked(live)
        body = AnswerBody(allow=True, updated_input={"file_path": path, "content": "x"})
        with pytest.raises(Unprocessable, match="protected"):
            live.answer(request.request_id, body)
        assert live.requests.open == (request,)


async def test_a_protected_path_is_allowed_once_and_offers_no_rule(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("write", file_path=".envrc", content="x")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        assert request.suggested_rules == ()
        with pytest.raises(Problem, match="once"):
            live.answer(request.request_id, AnswerBody(allow=True, always=True))


ODD = ["permissions = 'x'", "permissions = []", "[[permissions]]", "not toml"]
"""What cannot be read as what it means refuses the session."""
NO_LISTS = ["[permissions]\nallow = 5", "[permissions]\nallow = 'Bash'", "[permissions]\nallow = {a = 1}"]
"""What allows nothing, and is told."""


@pytest.mark.parametrize("text", [*ODD, *NO_LISTS])
async def test_a_settings_file_that_makes_no_sense_is_named_and_kept(tmp_path: Path, text: str) -> None:
    file = user_file(tmp_path / "config")
    async with house(tmp_path) as home:
        live = await home.session()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        if text in ODD:
            with pytest.raises(Unprocessable, match=r"settings\.toml"):
                await home.session()
        else:
            effective = await home.app.effective(tmp_path / "work")
            assert any("settings.toml" in text for text in effective.notices)
            assert effective.rules.allow == ()
        with pytest.raises(Unprocessable, match=r"config/settings\.toml"):
            await home.app.persist(live.agent, "Bash(ls)", for_user=True)
    assert file.read_text() == text


async def test_a_protected_name_asks_wherever_its_link_leads_at_the_moment(tmp_path: Path) -> None:
    (tmp_path / "work" / "harmless").mkdir(parents=True)
    (tmp_path / "work" / ".git").symlink_to("harmless")
    async with house(tmp_path) as home:
        live = await home.session(mode="accept-edits")
        home.provider.script(use(call("write", file_path=".git/config", content="x")))
        live.prompt("go")
        assert (await home.until_asked(live)).reasons == ("protected: .git/config",)


@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_what_a_rule_forbids_to_read_is_neither_found_nor_attached_nor_mentioned(
    tmp_path: Path, effect: str
) -> None:
    work, settings = tmp_path / "work", user_file(tmp_path / "config")
    for folder in (work, settings.parent):
        folder.mkdir()
    for name in ("a.txt", "b.secret"):
        (work / name).write_text("needle\n")
    settings.write_text(f'[permissions]\n{effect} = ["Read(*.secret)"]')
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("grep", pattern="needle")), use(call("ls")), say("Done."))
        events = await home.run(live, "Look into @./")
        with pytest.raises(Unprocessable, match="a rule keeps it from the tool `read`"):
            await live.agent.attachments.of_path("b.secret")
        assert "needle" in (await live.agent.attachments.of_path("a.txt")).text
        request = repr(home.provider.requests[0].messages)
    assert [event.output for event in events if event.type == "tool_end"] == ["a.txt", "a.txt"]
    assert ("a.txt" in request, "b.secret" in request) == (True, False)


@pytest.mark.parametrize("rule", ["Skill(deploy)", "Skill(deploy *)", "Skill(/deploy:*)", "Skill(deploy now)"])
async def test_a_forbidden_skill_is_not_loaded_by_another_spelling(tmp_path: Path, rule: str) -> None:
    skill, settings = tmp_path / "work" / ".claude/skills/deploy/SKILL.md", user_file(tmp_path / "config")
    for file in (skill, settings):
        file.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: Deploys.\n---\nPush it all.")
    settings.write_text(f'[permissions]\ndeny = ["{rule}"]')
    names = ("deploy", "/deploy", " /deploy")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(*(use(call("skill", f"c{name}", name=name)) for name in names), say("Not then."))
        events = await home.run(live, "go")
    ends = [event for event in events if event.type == "tool_end"]
    assert [(end.is_error, "Push it all" in end.output) for end in ends] == [(True, False)] * 3


async def test_a_folder_that_a_person_was_asked_about_is_shown_whole(tmp_path: Path) -> None:
    private, settings = tmp_path / "work" / "private", user_file(tmp_path / "config")
    for folder in (private, settings.parent):
        folder.mkdir(parents=True)
    (private / "a.txt").write_text("needle\n")
    settings.write_text('[permissions]\nask = ["Read(private/**)", "Read(*.md)"]')
    (private / "b.md").write_text("needle\n")
    calls = [call("grep", pattern="needle"), call("grep", "c2", pattern="needle", path="private")]
    named = call("grep", "c3", pattern="needle", path="private/b.md")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(*map(use, (*calls, named)), say("Done."))
        events = await home.run(live, "Look", [AnswerBody(allow=True), AnswerBody(allow=True)])
    found = [event.output for event in events if event.type == "tool_end"]
    assert found == ["No matches found.", "private/a.txt", "private/b.md"]


@pytest.mark.parametrize("name", [".claude.json", ".claude/.credentials.json", ".ssh/id_ed25519", ".netrc"])
async def test_the_users_credentials_are_closed_wherever_a_session_may_work(tmp_path: Path, name: str) -> None:
    settings, personal = user_file(tmp_path / "config"), tmp_path / "home"
    for file in (settings, personal / name, personal / ".claude/notes.md"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    settings.write_text('[permissions]\nadditional_directories = ["~"]')
    async with house(tmp_path) as home:
        live = await home.session()
        await live.agent.attachments.of_path(str(personal / ".claude/notes.md"))
        with pytest.raises(Unprocessable, match="closed"):
            await live.agent.attachments.of_path(str(personal / name))
