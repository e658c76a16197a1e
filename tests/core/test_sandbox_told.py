"""What a session is told when a confined command left something that would run outside of the sandbox."""

import json
from pathlib import Path

import anyio
import pytest

from agentcore.events import Notice
from agentcore.sandbox import folder_tree
from tests.core.test_background import until_quiet
from tests.core.test_sandbox_escapes import Cell, cell, probed
from tests.fakes import call, house, say, use

pytestmark = pytest.mark.anyio
__all__ = ["cell", "probed"]

PLANT = "git init -q sub && git -C sub config core.fsmonitor x"


@pytest.mark.usefixtures("probed")
@pytest.mark.parametrize("more", [{}, {"run_in_background": True}], ids=["in front", "in the background"])
async def test_a_person_sees_it_in_the_stream_and_it_stays_in_the_journal(
    tmp_path: Path, more: dict[str, object]
) -> None:
    async with house(tmp_path) as home:
        await home.app.probe_sandbox()
        live = await home.session(mode="yolo")
        (tmp_path / "work/setup.sh").write_text(PLANT)  # plainly, it would be asked about
        home.provider.script(use(call("bash", "b1", command="sh setup.sh", **more)), say("Done."), say("Heard."))
        await home.run(live, "go")
        await until_quiet(home, live)
        told = [event for event in home.events(live) if isinstance(event, Notice) and event.code == "git_would_run"]
        heard = [str(request.messages) for request in home.provider.requests]
        journal = [
            json.loads(line) for file in (tmp_path / "data").rglob("*.jsonl") for line in file.read_text().splitlines()
        ]
    assert [(one.level, "sub/.git (core.fsmonitor)" in one.text) for one in told] == [("warning", True)]
    assert told[0].text in heard[-1]
    assert [one["text"] for one in journal if one.get("code") == "git_would_run"] == [told[0].text]


async def test_that_there_is_too_much_to_look_at_is_told_once_and_not_the_model(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_tree, "MAX_FOLDERS", 20)
    with anyio.fail_after(30):
        outcomes = [await cell.call("bash", command=f"mkdir -p {n}/{{1..20}}") for n in ("a", "b", "c")]
    assert [[(event.level, event.code) for event in one.events if isinstance(event, Notice)] for one in outcomes] == [
        [("info", "git_not_all_seen")],
        [],
        [],
    ]
    assert {one.output for one in outcomes} == {"(no output)\n[exit code 0]"}


async def test_what_lies_deep_does_not_hide_what_lies_near_the_top(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_tree, "MAX_FOLDERS", 50)
    with anyio.fail_after(30):
        outcome = await cell.call("bash", command=f"mkdir -p a/b/{{1..200}}; {PLANT}")
    codes = [event.code for event in outcome.events if isinstance(event, Notice)]
    assert codes == ["git_would_run", "git_not_all_seen"]


async def test_a_folder_whose_time_was_set_back_is_read_all_the_same(cell: Cell) -> None:
    with anyio.fail_after(30):
        await cell.call("bash", command="mkdir sub; sleep 0.2")
        await cell.call("bash", command="true")
        outcome = await cell.call("bash", command=f"touch -r sub t; {PLANT}; touch -r t sub")
    assert [event.code for event in outcome.events if isinstance(event, Notice)] == ["git_would_run"]
