"""The guard at the API: a session is not begun where it cannot look, and results from outside pass it."""

import base64
from collections.abc import Iterable
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentcore.guard.building import GROUP, make_scanner
from agentcore.guard.guard import WITHHELD_FILE
from agentcore.messages import Document, Text
from agentcore.sessions.waiting import HIDDEN
from agentcore.tools.pdf import MAX_PAGES
from tests.core.test_deferral import hand_over
from tests.crash.test_barriers import serving, until_idle
from tests.fakes import call, say, use
from tests.pictures import paper

__all__ = ["hand_over"]
pytestmark = pytest.mark.anyio

MAIL = "jane@example.com"
BROKEN = EntryPoint("mine", "agentcore.no_such:Scanner", GROUP)


def guarding(root: Path, mode: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "settings.toml").write_text(f'[guard]\nmode = "{mode}"\n')


@pytest.mark.parametrize(("mode", "status"), [("off", 201), ("redact", 422), ("reject", 422)])
async def test_a_scanner_that_cannot_be_made_refuses_the_session_and_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, status: int
) -> None:
    def installed() -> Iterable[EntryPoint]:
        return [BROKEN]

    monkeypatch.setattr("agentcore.app.make_scanner", partial(make_scanner, installed=installed))
    guarding(tmp_path, mode)
    async with serving(tmp_path) as served:
        created = await served.http.post("/v1/sessions", json={})
        assert created.status_code == status
        if status == 422:
            assert created.json()["code"] == "unprocessable"
            assert "the scanner 'mine' (agentcore.no_such:Scanner) cannot be made" in created.json()["error"]
        listed = (await served.http.get("/v1/sessions")).json()["sessions"]
        assert len(listed) == (status == 201)


PAPERS = {
    "clean": (("Nothing.",), True),
    "with an address": (("Nothing.", f"Write to {MAIL}."), False),
    "longer than is read": (("Nothing.",) * (MAX_PAGES + 1), False),
}


@pytest.mark.parametrize(("pages", "passes"), PAPERS.values(), ids=PAPERS.keys())
async def test_of_a_document_all_was_read_or_it_is_withheld(
    tmp_path: Path, pages: tuple[str, ...], passes: bool
) -> None:
    guarding(tmp_path, "redact")
    async with serving(tmp_path) as served:
        live = await served.session()
        attached = {"media_type": "application/pdf", "data": base64.b64encode(paper(*pages)).decode()}
        body = {"text": "Look.", "attachments": [attached], "wait": True}
        ended = await served.http.post(f"/v1/sessions/{live.id}/prompt", json=body)
        assert ended.json()["stop_reason"] == "end_turn"
        content = served.provider.requests[0].messages[0].content
        assert any(isinstance(block, Document) for block in content) is passes
        assert (Text(text=WITHHELD_FILE) in content) is not passes


@pytest.mark.parametrize(("mode", "told"), [("redact", "It is [EMAIL "), ("reject", "[Withheld: the guard ")])
async def test_a_result_from_outside_is_checked_before_it_is_one(tmp_path: Path, mode: str, told: str) -> None:
    guarding(tmp_path, mode)
    async with serving(tmp_path) as served:
        live = await served.session(mode="yolo")
        served.provider.script(use(call("hand_over", "a", token="t-a")), say("Done."))
        await served.prompt(live)
        await until_idle(live)
        given = await served.http.post(f"/v1/sessions/{live.id}/deferred/t-a", json={"output": f"It is {MAIL}."})
        assert given.status_code == 204
        await until_idle(live)
        last = served.provider.requests[-1].messages[-1].model_dump_json()
        assert told in last
        assert MAIL.encode() not in served.journal(live)


@pytest.mark.parametrize(("mode", "told"), [("redact", "write to [EMAIL "), ("reject", "[Withheld: the guard ")])
async def test_one_prompt_of_the_queue_is_shown_as_the_guard_lets_it_through(
    tmp_path: Path, mode: str, told: str
) -> None:
    guarding(tmp_path, mode)
    async with serving(tmp_path) as served:
        live = await served.session()
        served.provider.script(use(call("bash", command="make")), say("Done."))
        live.prompt("go")
        queued = live.prompt(f"write to {MAIL}", when_busy="queue").prompt_id
        place = f"/v1/sessions/{live.id}/queue"
        shown = (await served.http.get(f"{place}/{queued}")).json()
        edited = (await served.http.patch(f"{place}/{queued}", json={"text": f"write to {MAIL}!"})).json()
        listed = (await served.http.get(place)).json()["queue"]
        assert [one["text"].startswith(told) for one in (shown, edited)] == [True, True]
        assert [(one["text"], one["is_cut"]) for one in listed] == [(HIDDEN, True)]
        live.queue.clear()
        live.cancel()
        await until_idle(live)
