"""How `agentcore selfcheck` shows what it does, on a terminal and elsewhere, and what it leaves behind: nothing."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WAIT_S = 30.0
HIDE, SHOW, UP = b"\x1b[?25l", b"\x1b[?25h", b"\x1b[1A"
GREEN = b"\x1b[32m"


class Run:
    """A self-check with quick checks, with folders of its own; on a terminal where `terminal` is its other side."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int | None) -> None:
        self.process = process
        self._terminal = terminal
        self.seen = b""

    def until(self, what: bytes) -> None:
        """Read what is shown until that comes; b"" never does, so it is read to the end."""
        deadline = time.monotonic() + WAIT_S
        while not what or what not in self.seen:
            ready, _, _ = select.select([self._source], [], [], deadline - time.monotonic())
            assert ready, self.seen
            piece = self._read()
            if not piece:
                assert not what, self.seen
                return
            self.seen += piece

    @property
    def _source(self) -> int:
        if self._terminal is not None:
            return self._terminal
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def _read(self) -> bytes:
        try:
            return os.read(self._source, 65_536)
        except OSError:  # the other side of the terminal is closed
            return b""


@contextmanager
def checking(root: Path, *names: str, on_terminal: bool = False, **environment: str) -> Iterator[Run]:
    terminal, side = pty.openpty() if on_terminal else (None, subprocess.PIPE)
    home = {"HOME": str(root / "home"), "XDG_CACHE_HOME": str(root), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.clients.quick_checks", *names],
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **home, **environment},
        start_new_session=True,
    )
    try:
        if terminal is not None:
            os.close(side)
        yield Run(process, terminal)
    finally:
        process.kill()
        process.communicate()
        if terminal is not None:
            os.close(terminal)


def ended(run: Run) -> int:
    run.until(b"")
    return run.process.wait(WAIT_S)


# --- what is shown ---


def test_on_a_terminal_a_table_is_alive_and_ends_with_every_verdict(tmp_path: Path) -> None:
    with checking(tmp_path, "watched", "held", "broken", on_terminal=True) as run:
        run.until(b"look at this")  # while it goes on
        assert b"held" not in run.seen.replace(b"promise held", b"")
        [folder] = (tmp_path / "agentcore").iterdir()
        (folder / "seen").touch()
        assert ended(run) == 1
    assert HIDE in run.seen
    assert GREEN in run.seen
    last = run.seen.rpartition(UP)[2]
    for words in (b"it was seen", b"all was [well]", b"BROKEN", b"it does not hold"):
        assert words in last
    assert run.seen.rindex(SHOW) > run.seen.rindex(HIDE)


def test_a_terminal_gets_its_cursor_back_when_it_is_ended(tmp_path: Path) -> None:
    with checking(tmp_path, "waiting", on_terminal=True) as run:
        run.until(b"waiting for ever")
        run.process.send_signal(signal.SIGTERM)
        assert ended(run) != 0
    assert run.seen.rindex(SHOW) > run.seen.rindex(HIDE)


def test_no_colour_is_shown_where_none_is_wanted(tmp_path: Path) -> None:
    with checking(tmp_path, "held", "broken", on_terminal=True, NO_COLOR="1") as run:
        assert ended(run) == 1
    assert HIDE in run.seen
    assert not [colour for colour in (GREEN, b"\x1b[31m", b"\x1b[1;31m", b"\x1b[38;") if colour in run.seen]


LINES = [
    "held       promise held: all was [well]",
    "not tried  promise missing: there is none [here]",
    "BROKEN     promise broken: it does not hold",
]


@pytest.mark.parametrize(
    ("on_terminal", "environment"),
    [(True, {"TERM": "dumb"}), (False, {}), (False, {"FORCE_COLOR": "1"})],
    ids=["dumb", "pipe", "pipe-with-forced-colour"],
)
def test_elsewhere_each_check_is_a_plain_line(tmp_path: Path, on_terminal: bool, environment: dict[str, str]) -> None:
    with checking(tmp_path, "held", "missing", "broken", on_terminal=on_terminal, **environment) as run:
        assert ended(run) == 1
    assert b"\x1b" not in run.seen
    assert [line.rpartition(" (")[0] for line in run.seen.decode().splitlines()] == LINES


# --- a check that breaks ---


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("key", "KeyError('id') (at: looking into it)"),
        ("file", "FileNotFoundError(2, 'No such file or directory')"),
        ("pipe", "BrokenResourceError()"),
        ("group", "ExceptionGroup("),
    ],
)
def test_a_check_that_breaks_is_unclear_and_the_others_are_made(tmp_path: Path, name: str, said: str) -> None:
    with checking(tmp_path, name, "held") as run:
        assert ended(run) == 1
        assert run.process.stderr is not None
        told = run.process.stderr.read().decode()
    lines = run.seen.decode().splitlines()
    assert [line[:10].strip() for line in lines] == ["unclear", "held"]
    assert f"promise {name}: could not be checked: {said}" in lines[0]
    assert "Traceback" in told


@pytest.mark.parametrize("on_terminal", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_check_that_is_interrupted_says_so(tmp_path: Path, number: signal.Signals, on_terminal: bool) -> None:
    name, begun = ("waiting", b"waiting for ever") if on_terminal else ("serving", b"\n")
    with checking(tmp_path, name, "held", on_terminal=on_terminal) as run:
        run.until(begun)
        run.process.send_signal(number)
        assert ended(run) != 0
    last = run.seen.rpartition(UP)[2]
    assert last.count(b"interrupted") == 1
    assert b"interrupted" in next(line for line in last.splitlines() if name.encode() in line)


def test_without_a_place_for_its_files_it_says_so(tmp_path: Path) -> None:
    with checking(tmp_path, "held", XDG_CACHE_HOME="/proc/nowhere") as run:
        assert ended(run) == 1
        assert run.process.stderr is not None
        told = run.process.stderr.read()
    assert told == b"agentcore: The self-check has no place for its files: /proc/nowhere: No such file or directory.\n"
    assert run.seen == b""


# --- what is left ---


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_its_server_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    with checking(tmp_path, "serving") as run:
        run.until(b"\n")
        server, folder = run.seen.decode().split()
        server_end = os.pidfd_open(int(server))
        try:
            run.process.send_signal(number)
            run.process.wait(WAIT_S)
            assert select.select([server_end], [], [], WAIT_S)[0], "the server goes on"
        finally:
            os.close(server_end)
    assert Path(folder).exists() == (number is signal.SIGKILL)


def test_the_folder_of_one_that_was_killed_is_swept_and_of_one_that_lives_is_not(tmp_path: Path) -> None:
    with checking(tmp_path, "serving") as killed, checking(tmp_path, "serving") as living:
        folders = []
        for run in (killed, living):
            run.until(b"\n")
            folders.append(Path(run.seen.decode().split()[1]).parent)
        killed.process.kill()
        killed.process.wait(WAIT_S)
        with checking(tmp_path, "held") as third:
            assert ended(third) == 0
        assert [folder.exists() for folder in folders] == [False, True]
    assert sorted(path.name for path in (tmp_path / "agentcore").iterdir()) == [folders[1].name]
