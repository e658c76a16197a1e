"""`agentcore doctor`: what it finds, what it leaves alone, and its exit codes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcore.sessions.journal import Journal
from agentcore.sessions.segments import path_of
from server import cli
from server.settings import STATE_VARIABLE
from tests.daemon import Daemon
from tests.fakes import call, house, say, use

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session with one whole run, below the folder that the command line looks in."""
    (tmp_path / "state").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "state" / "data")
    (tmp_path / "state" / "data").mkdir()
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("ls")), say("Done."))
        await home.run(live, "go")
        return live.id


def journal(tmp_path: Path) -> Path:
    [path] = (tmp_path / "state" / "data" / "sessions").glob("*/*/journal.jsonl")
    return path


def examine(capsys: pytest.CaptureFixture[str], session: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["doctor", session, "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, report


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


async def test_a_sound_session_is_told_and_left_as_it_is(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(journal(tmp_path).parent)
    code, report = examine(capsys, session[:12])
    assert (code, report["findings"], report["session"]) == (0, [], session)
    assert (report["is_held"], report["generation"], report["torn"]) == (False, 1, [])
    assert report["files"] == [
        {"name": "journal.jsonl", "size_bytes": journal(tmp_path).stat().st_size, "ignored_bytes": 0}
    ]
    facts = report["facts"]
    assert (facts["messages"], facts["unfinished_prompt"], facts["pending_requests"]) == (4, None, [])
    assert report["lines"] == len(journal(tmp_path).read_bytes().splitlines())
    assert contents(journal(tmp_path).parent) == before
    assert cli.main(["doctor", "latest"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "sound"


def cut_line(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        lines[at - 1] = lines[at - 1][:-3] + b"\n"
        path.write_bytes(b"".join(lines))

    return damage


def without_results(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"type":"tool_end"')))


def with_torn_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b'{"type":"no')


def senseless_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[0], *lines[3:]]))  # a second `meta`


def with_bad_ends(path: Path) -> None:
    (path.parent / "segments.json").write_bytes(b"{")


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a line": (cut_line(3), "line_damaged", "Line 3 of journal.jsonl "),
    "a line that makes no sense": (senseless_line, "line_damaged", "Line 4 of journal.jsonl "),
    "the transcript": (without_results, "transcript_damaged", "1 calls had no result"),
    "a torn line": (with_torn_line, "torn_line", "(11 bytes)"),
    "the ends of the files": (with_bad_ends, "segments_damaged", "segments.json"),
}


@pytest.mark.parametrize("case", DAMAGE)
async def test_damage_is_named_with_what_to_do(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    damage, kind, part = DAMAGE[case]
    damage(journal(tmp_path))
    before = contents(journal(tmp_path).parent)
    code, report = examine(capsys, session)
    [finding] = report["findings"]
    assert (code, finding["code"]) == (1, kind)
    assert part in finding["text"]
    assert contents(journal(tmp_path).parent) == before
    assert cli.main(["doctor", session]) == 1
    assert "FOUND" in capsys.readouterr().out


async def test_every_damaged_line_is_named_with_its_file(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = journal(tmp_path).parent
    old, _ = Journal.open(directory)
    new, _ = Journal.open(directory, takeover=True)
    new.append(b"nonsense")
    new.append(b'{"type":"note","text":"whole"}')
    with path_of(directory, 1).open("ab") as stale:
        stale.write(b"too late\n")
    for owner in (old, new):
        owner.close()
    path = journal(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:-2] + b"?\n", *lines[3:]]))
    code, report = examine(capsys, session)
    assert code == 1
    assert [finding["text"].partition(" cannot")[0] for finding in report["findings"]] == [
        "Line 3 of journal.jsonl",
        "Line 1 of journal.2.jsonl",
    ]
    assert report["generation"] == 2
    assert [file["ignored_bytes"] for file in report["files"]] == [len(b"too late\n"), 0]
    os.truncate(path, path.stat().st_size - 20)
    _, report = examine(capsys, session)
    assert report["findings"][0]["code"] == "file_damaged"


async def test_it_works_beside_a_server_and_says_who_has_it(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    async with daemon.client() as http:
        created = (await http.post("/v1/sessions", json={})).json()["id"]
        assert cli.main(["doctor", created, "--json", "--state-dir", str(daemon.state_dir)]) == 0
        report = json.loads(capsys.readouterr().out)
        assert daemon.process is not None
        assert (report["is_held"], report["owner"]["pid"]) == (True, daemon.process.pid)
        assert (await http.patch(f"/v1/sessions/{created}", json={"title": "Still mine"})).status_code == 200
    daemon.kill()
    assert cli.main(["doctor", created, "--state-dir", str(daemon.state_dir)]) == 0
    assert "had it last" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["20200101-000000-aaaaaa", "nothing", "../.."])
async def test_a_session_that_is_none_is_a_mistake(session: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert cli.main(["doctor", name]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("agentcore: There is no session")) == ("", True)
    assert "/v1/" not in said.err  # there may be no server to ask


async def test_what_waits_is_no_damage(tmp_path: Path, session: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="make all")))
        live.prompt("go")
        await home.until_asked(live)
    code, report = examine(capsys, live.id)
    assert (code, report["facts"]["pending_requests"]) == (0, ["perm-1"])
    assert report["facts"]["unfinished_prompt"] is not None
    assert cli.main(["doctor", live.id]) == 0
    assert "perm-1" in capsys.readouterr().out
