"""What a repository wants to run: it waits for a person, whose word holds for one content."""

import json
import os
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
        return self.approvals.states(look(self.sources, [self.work]))

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
    [changed] = desk.listed()
    assert changed.state == "waiting"
    assert changed.id != one.id
    assert changed.id != one.id
    desk.hook()
    assert desk.may_run() == [True]


def test_a_server_waits_again_when_its_environment_changes(desk: Desk) -> None:
    desk.servers(files=SERVER)
    [one] = desk.listed()
    desk.decide(one, allow=True)
    desk.servers(files={**SERVER, "env": {"A": "c"}})
    assert [one.state for one in desk.listed()] == ["waiting"]


NAMING: dict[str, object] = {
    "by itself": {"type": "command", "command": "scripts/check.sh"},
    "./": {"type": "command", "command": "./scripts/check.sh --fast"},
    "an argument": {"type": "command", "command": "python3 scripts/check.sh"},
    "an argument of a program": {"type": "command", "command": "python3", "args": ["-u", "scripts/check.sh"]},
    "the project's variable": {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/scripts/check.sh'},
    "braces": {"type": "command", "command": "${CLAUDE_PROJECT_DIR:-/x}/scripts/check.sh"},
    "another variable": {"type": "command", "command": 'bash "$ROOT/scripts/check.sh"'},
    "a substitution": {"type": "command", "command": "$(git rev-parse --show-toplevel)/scripts/check.sh"},
    "behind another": {"type": "command", "command": "true && scripts/check.sh; true"},
    "after a move": {"type": "command", "command": "cd scripts && ./check.sh"},
    "inside quotes": {"type": "command", "command": "sh -c 'scripts/check.sh --fast'"},
    "an option": {"type": "command", "command": "run --file=scripts/check.sh"},
    "with output elsewhere": {"type": "command", "command": "scripts/check.sh 2>&1 >>hook.log"},
    "as input": {"type": "command", "command": "sh <scripts/check.sh >| hook.log"},
    "written and run": {"type": "command", "command": "cat > scripts/check.sh; sh scripts/check.sh"},
    "an odd quote": {"type": "command", "command": "scripts/check.sh don't"},
}


@pytest.mark.parametrize("handler", NAMING.values(), ids=NAMING.keys())
def test_a_script_that_a_hook_names_is_approved_with_it(desk: Desk, handler: object) -> None:
    script = desk.work / "scripts" / "check.sh"
    script.parent.mkdir()
    script.write_text("true")
    desk.hook(handler)
    [one] = desk.listed()
    assert (one.scripts, desk.may_run()) == (("scripts/check.sh",), [False])
    desk.decide(one, allow=True)
    assert desk.may_run() == [True]
    script.write_text("evil")
    assert desk.may_run() == [False]
    [changed] = desk.listed()
    assert changed.state == "waiting"
    assert changed.id != one.id
    with pytest.raises(NotFound):
        find([changed], one.id)
    desk.decide(changed, allow=True)
    assert desk.may_run() == [True]
    script.unlink()
    assert desk.may_run() == [False]
    script.write_text("true")
    assert desk.may_run() == [True]


@pytest.mark.parametrize(
    "command", ["echo ran >> hook.log", "date>hook.log", "x 2> hook.log &>>hook.log", "x >|hook.log"]
)
def test_what_a_hook_writes_is_none_of_its_scripts(desk: Desk, command: str) -> None:
    """Else it would run once, and never again."""
    desk.hook({"type": "command", "command": command})
    [one] = desk.listed()
    desk.decide(one, allow=True)
    (desk.work / "hook.log").write_text("ran")
    assert desk.may_run() == [True]


def test_a_script_that_comes_later_or_under_the_folder_of_a_session_waits(desk: Desk) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    assert desk.may_run() == [True]
    (desk.work / "check.sh").write_text("evil")
    assert desk.may_run() == [False]
    (desk.work / "check.sh").unlink()
    inner = desk.work / "inner"
    inner.mkdir()
    (inner / "check.sh").write_text("evil")
    [hook] = for_folder(desk.sources, desk.work, "work-1").hooks
    assert desk.approvals.is_approved(hook.origin, hook.sha256, desk.work)
    assert not desk.approvals.is_approved(hook.origin, hook.sha256, inner)
    [waiting] = desk.approvals.states(look(desk.sources, [inner]))
    assert (waiting.state, waiting.scripts) == ("waiting", ("inner/check.sh",))


def test_a_name_with_blanks_is_found_too(desk: Desk) -> None:
    script = desk.work / "my scripts" / "check it.sh"
    script.parent.mkdir()
    script.write_text("1")
    desk.hook({"type": "command", "command": '"$CLAUDE_PROJECT_DIR/my scripts/check it.sh" --fast'})
    [one] = desk.listed()
    assert one.scripts == ("my scripts/check it.sh",)


def test_the_script_of_a_server_is_approved_with_it(desk: Desk) -> None:
    (desk.work / "server.js").write_text("1")
    desk.servers(files={"command": "node", "args": ["./server.js", "."]})
    [one] = desk.listed()
    assert one.scripts == ("server.js",)
    desk.decide(one, allow=True)
    (desk.work / "server.js").write_text("2")
    assert [one.state for one in desk.listed()] == ["waiting"]


def test_only_files_of_the_project_are_pinned(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "mine.sh").write_text("1")
    (desk.work / "folder").mkdir()
    os.mkfifo(desk.work / "fifo")
    (desk.work / "linked").symlink_to(tmp_path / "mine.sh")
    with (desk.work / "huge").open("wb") as huge:
        huge.truncate(100 * 1024 * 1024 * 1024)
    command = f"{tmp_path}/mine.sh ../../mine.sh folder fifo linked huge no-such-file /bin/sh . .. / ~ $X \0"
    desk.hook({"type": "command", "command": command.replace("\0", "")})
    [one] = desk.listed()
    assert one.scripts == ("huge", "linked")
    desk.decide(one, allow=True)
    (tmp_path / "mine.sh").write_text("2")
    assert desk.may_run() == [False]
    (tmp_path / "mine.sh").write_text("1")
    assert desk.may_run() == [True]
    with (desk.work / "huge").open("r+b") as huge:
        huge.seek(-1, os.SEEK_END)
        huge.write(b"x")
    assert desk.may_run() == [False]


def test_what_an_earlier_version_approved_without_its_script_waits(desk: Desk) -> None:
    desk.hook()
    [one] = desk.listed()
    desk.decide(one, allow=True)
    store = desk.config / "approvals.json"
    kept = json.loads(store.read_text())
    del kept["approvals"][0]["entry_sha256"]
    store.write_text(json.dumps(kept))
    assert desk.may_run() == [True]
    (desk.work / "check.sh").write_text("x")
    assert desk.may_run() == [False]


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
    assert first.states([hook]) == second.states([hook])
    first.decide(hook, allow=True, now=1.0)
    second.decide(server, allow=False, now=2.0)
    assert [one.state for one in desk.listed()] == ["allowed", "denied"]
