"""A journal whose last line was cut at any byte is loaded; one that is damaged anywhere else is refused, untouched."""

from pathlib import Path

import pytest

from agentcore.errors import JournalDamaged
from agentcore.sessions.fold import fold
from agentcore.sessions.reading import read_lines
from server.schemas import AnswerBody
from tests.crash.stories import STRIDE, check_journal, kinds, of_kind
from tests.daemon import Daemon
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    """The journal of one run that used every kind of line there is at this stage."""
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo hi"), text="Ä\u2028"), say("Done."))
        await home.run(live, "greet", [AnswerBody(allow=True, scope="session")])
        live.agent.notice("info", "closing", "The last line, with Ünicode \u2028 in it.")
    [path] = (tmp_path / "data" / "sessions").glob("*/*/journal.jsonl")
    return path


def session_of(journal: Path) -> str:
    return journal.parent.name


async def test_a_last_line_cut_at_any_byte_is_set_aside_and_the_rest_is_intact(tmp_path: Path, journal: Path) -> None:
    whole = journal.read_bytes()
    start = whole.rfind(b"\n", 0, -1) + 1
    before = fold(read_lines(journal, start))
    for end in range(start, len(whole)):
        torn = whole[start:end]
        journal.write_bytes(whole[:end])
        async with house(tmp_path) as home:
            live = await home.reload(session_of(journal))
            assert live.agent.history.transcript.messages == before.transcript.messages
            assert live.bus.head % 1_000_000 == (1 if torn else 0)  # the notice, and nothing else
        after = journal.read_bytes()
        aside = journal.parent / f"torn-{start}"
        assert after.startswith(whole[:start])
        assert (aside.read_bytes() if aside.exists() else b"") == torn
        codes = [event["code"] for event in of_kind(check_journal(after), "notice") if event["seq"] >= STRIDE]
        assert codes == (["journal_repaired"] if torn else [])
        aside.unlink(missing_ok=True)


async def test_a_kill_while_the_repair_is_written_is_repaired_too(tmp_path: Path, journal: Path) -> None:
    """Torn, set aside, torn again: what was set aside first stays."""
    torn: list[Path] = []
    for _ in range(3):
        journal.write_bytes(journal.read_bytes() + b'{"type":"note')
        async with house(tmp_path) as home:
            await home.reload(session_of(journal))
        torn = sorted(journal.parent.glob("torn-*"))
    assert [path.read_bytes() for path in torn] == [b'{"type":"note'] * 3
    check_journal(journal.read_bytes())


def damage(line: bytes) -> dict[str, bytes]:
    return {
        "no JSON": b"garbage",
        "empty": b"",
        "first half": line[: len(line) // 2],
        "second half": line[len(line) // 2 :],
        "NUL": b"\0" * len(line),
        "one character less": line[:-1],
        "two lines in one": line + line,
        "a bare quote": line.replace(b":", b'":', 1),
    }


async def refusal(home: House, session: str) -> str:
    """What a load is refused with; empty when it is not refused."""
    try:
        await home.reload(session)
    except JournalDamaged as error:
        return str(error)
    return ""


async def test_any_other_malformed_line_is_refused_by_its_number_and_the_file_stays(
    tmp_path: Path, journal: Path
) -> None:
    lines = journal.read_bytes().split(b"\n")[:-1]
    async with house(tmp_path) as home:
        for at, line in enumerate(lines[:-1]):
            for kind, malformed in damage(line).items():
                data = b"\n".join([*lines[:at], malformed, *lines[at + 1 :]]) + b"\n"
                journal.write_bytes(data)
                assert f"Line {at + 1} " in await refusal(home, session_of(journal)), (kind, line)
                assert journal.read_bytes() == data, (kind, line)


async def test_a_damaged_journal_is_told_by_its_line_and_the_rest_of_the_server_works(daemon: Daemon) -> None:
    async with daemon.client() as http:
        session = (await http.post("/v1/sessions", json={})).json()["id"]
        await http.patch(f"/v1/sessions/{session}", json={"title": "Mine"})
        await http.delete(f"/v1/sessions/{session}")
        path = daemon.journal(session)
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join([lines[0], lines[1][:-3], *lines[2:]]))
        damaged = path.read_bytes()
        refused = await http.post("/v1/sessions", json={"resume": session})
        assert (refused.status_code, refused.json()["code"]) == (500, "journal_damaged")
        assert "Line 2 " in refused.json()["error"]
        assert str(daemon.state_dir) not in refused.text
        assert path.read_bytes() == damaged
        assert kinds(daemon.events(session)) == ["session_updated", "session_closed"]
        assert (await http.post("/v1/sessions", json={})).status_code == 201
