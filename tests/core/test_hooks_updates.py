"""What a PermissionRequest hook changes for good with its yes: rules and the mode, as far as a person could."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.events import PermissionRequest, SessionUpdated, ToolEnd
from agentcore.hooks.updates import Updates, read_updates
from tests.core.test_hooks_runs import notices, of_kind, own, says, settings
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio


def add(content: str | None, destination: str = "session", **more: object) -> dict[str, Any]:
    rule = {"toolName": "Bash"} if content is None else {"toolName": "Bash", "ruleContent": content}
    return {"type": "addRules", "behavior": "allow", "rules": [rule], "destination": destination, **more}


MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
NONE = "printed `updatedPermissions` ({}) that are neither allow rules nor the session's mode: no effect"


@pytest.mark.parametrize(
    ("written", "updates", "told"),
    [
        (None, Updates(), []),
        ([add("git *")], Updates((("Bash(git *)", "session"),)), []),
        ([add(None, "userSettings")], Updates((("Bash", "user"),)), []),
        (
            [add("a", "localSettings"), add("b", "projectSettings")],
            Updates((("Bash(a)", "project"), ("Bash(b)", "project"))),
            [],
        ),
        ([MODE], Updates(mode="accept-edits"), []),
        ([{**MODE, "destination": "userSettings"}], Updates(), [NONE.format("setMode")]),
        ([{**MODE, "mode": "wild"}], Updates(), [NONE.format("setMode")]),
        ([add("x", behavior="deny")], Updates(), [NONE.format("addRules")]),
        ([add("x", "elsewhere")], Updates(), [NONE.format("addRules")]),
        (
            [{"type": "removeRules"}, {"type": "addDirectories"}, 7],
            Updates(),
            [NONE.format(kind) for kind in ("removeRules", "addDirectories", "None")],
        ),
        ("all", Updates(), ["printed `updatedPermissions` that are no list: they have no effect"]),
        (
            [add("x", rules=[{"tool": "Bash"}])],
            Updates(),
            ["printed a rule in `updatedPermissions` that cannot be used: it has no `toolName`"],
        ),
    ],
)
def test_what_is_to_change_for_good_is_read_as_a_persons_always(
    written: object, updates: Updates, told: list[str]
) -> None:
    said: list[str] = []
    assert read_updates(written, said.append) == updates
    assert said == told


def hook(root: Path, *updates: object, behavior: str = "allow") -> str:
    return says(
        root, "allow.py", own("PermissionRequest", decision={"behavior": behavior, "updatedPermissions": updates})
    )


async def touched(home: House, session: str | None = None) -> tuple[str, int, list[str]]:
    """Two commands in a session: its id, how often its hook ran, and what was told about hooks."""
    live = await home.session() if session is None else await home.reload(session)
    home.provider.script(
        use(call("bash", "c1", command="touch a")), use(call("bash", "c2", command="touch b")), say("ok")
    )
    events = await home.run(live, "go")
    assert not any(end.is_error for end in of_kind(events, ToolEnd))
    assert of_kind(events, PermissionRequest) == []
    await home.hub.close(live, "test")
    log = home.root / "work/asked"
    ran = len(log.read_text().split()) if log.exists() else 0
    log.unlink(missing_ok=True)
    return live.id, ran, notices(events, "hook_failed")


def counting(root: Path, *updates: object) -> None:
    settings(root, PermissionRequest=[{"command": f"echo x >> asked; {hook(root, *updates)}"}])


@pytest.mark.parametrize("content", ["touch *", None])
async def test_a_rule_for_the_session_holds_for_it_after_a_restart_and_for_no_other(
    tmp_path: Path, content: str | None
) -> None:
    counting(tmp_path, add(content), add("other *"))
    async with house(tmp_path) as home:
        session, ran, told = await touched(home)
        assert (ran, told) == (1, [])
    async with house(tmp_path) as home:
        assert (await touched(home, session))[1] == 0
        assert (await touched(home))[1] == 1


@pytest.mark.parametrize(("destination", "is_user"), [("userSettings", True), ("projectSettings", False)])
async def test_a_rule_that_is_to_stay_is_written_to_the_users_own_files(
    tmp_path: Path, destination: str, is_user: bool
) -> None:
    counting(tmp_path, add("touch *", destination))
    before = (tmp_path / "config/settings.toml").read_text()
    async with house(tmp_path) as home:
        assert (await touched(home))[1] == 1
        assert (await touched(home))[1] == 0
        files = [file for file in (tmp_path / "config").rglob("settings.toml") if "touch *" in file.read_text()]
        assert [file.parent == tmp_path / "config" for file in files] == [is_user]
        assert not (tmp_path / "work/.claude").exists()
    assert (tmp_path / "config/settings.toml").read_text().startswith(before.rstrip()) or is_user


async def test_a_no_changes_nothing_for_good(tmp_path: Path) -> None:
    settings(tmp_path, PermissionRequest=[{"command": hook(tmp_path, add(None), MODE, behavior="deny")}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(
            use(call("bash", "c1", command="touch a"), call("bash", "c2", command="touch b")), say("ok")
        )
        assert [end.is_error for end in of_kind(await home.run(live, "go"), ToolEnd)] == [True, True]
        assert (live.agent.settings.mode, live.agent.rules()) == ("default", ())


@pytest.mark.parametrize(
    ("mode", "allow_yolo", "now"),
    [
        ("acceptEdits", True, "accept-edits"),
        ("bypassPermissions", True, "yolo"),
        ("bypassPermissions", False, "default"),
    ],
)
async def test_a_hook_sets_the_mode_of_the_session_within_what_the_server_allows(
    tmp_path: Path, mode: str, allow_yolo: bool, now: str
) -> None:
    settings(tmp_path, PermissionRequest=[{"command": hook(tmp_path, {**MODE, "mode": mode})}])
    async with house(tmp_path, allow_yolo=allow_yolo) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch a")), say("ok"))
        events = await home.run(live, "go")
        assert live.agent.settings.mode == now
        changes = [(change.mode, change.by) for change in of_kind(events, SessionUpdated) if change.mode is not None]
        assert changes == ([] if now == "default" else [(now, "hook")])
        assert len(notices(events, "mode_not_allowed")) == (now == "default")


async def test_a_hook_of_the_repository_changes_nothing_beyond_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "work/.claude"
    folder.mkdir(parents=True)
    command = hook(tmp_path, add("touch *", "userSettings"), add("touch b"), MODE)
    hooks = {"PermissionRequest": [{"hooks": [{"type": "command", "command": command}]}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    work = (tmp_path / "work").resolve()
    async with house(tmp_path) as home:
        [waiting] = await home.app.find_approvals([work])
        await home.app.decide_approval([work], waiting.id, allow=True)
        live = await home.session()
        home.provider.script(use(call("bash", "c1", command="touch a")), say("ok"))
        events = await home.run(live, "go")
        assert [rule.rule for rule in live.agent.rules()] == ["Bash(touch b)"]
        assert live.agent.settings.mode == "default"
        [text] = notices(events, "hook_failed")
        assert "of its `updatedPermissions` only the rules for the session count" in text
    assert not (tmp_path / "config/settings.toml").exists()
