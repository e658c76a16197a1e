"""A server that is killed between an answer and the writing of its rule: what was allowed for good still is."""

import json
from pathlib import Path

import pytest

from agentcore.sessions.store import project_of
from server.schemas import AnswerBody
from tests.fakes import FakeClock, House, call, house, say, use

pytestmark = pytest.mark.anyio

MAKE = call("bash", command="make all")
RULE = "Bash(make all)"


def settings_file(root: Path, scope: str) -> Path:
    """Where `always` writes."""
    folder = root / "config"
    if scope == "project":
        folder = folder / "projects" / project_of((root / "work").resolve())
    return folder / "settings.toml"


async def answer(home: House, **given: object) -> str:
    """Answer a request as far as the journal knows; the house is left as a SIGKILL would leave it."""
    live = await home.session()
    home.provider.script(use(MAKE))
    live.prompt("go")
    request = await home.until_asked(live)
    live.answer(request.request_id, AnswerBody.model_validate({"allow": True, **given}))
    return live.id


@pytest.mark.parametrize(("given", "scope"), [({"always": True}, "project"), ({"scope": "user"}, "user")])
async def test_the_next_load_writes_the_rule_and_only_that_one(
    tmp_path: Path, given: dict[str, object], scope: str
) -> None:
    file = settings_file(tmp_path, scope)
    async with house(tmp_path) as home:
        name = await answer(home, **given)
        assert not file.exists()
    async with house(tmp_path) as home:
        live = await home.reload(name)
        assert RULE in file.read_text()
        assert [(rule.rule, rule.scope) for rule in live.agent.rules()] == [(RULE, scope)]
        home.provider.script(use(MAKE), say("Made."))
        await home.run(live, "again")
        assert [request for request in home.events(live) if request.type == "permission_request"] == []
    file.write_text("")  # taken back by hand
    async with house(tmp_path) as home:
        live = await home.reload(name)
        assert (file.read_text(), live.agent.rules()) == ("", ())


async def test_what_was_not_for_good_is_not_written(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        names = [await answer(home, scope=scope) for scope in ("once", "session")]
    async with house(tmp_path) as home:
        for name in names:
            await home.reload(name)
    assert list((tmp_path / "config").rglob("*")) == []


async def test_a_rule_that_has_expired_meanwhile_is_not_written(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        name = await answer(home, always=True, expires_in_s=60)
    clock.time += 60
    async with house(tmp_path, clock=clock) as home:
        await home.reload(name)
    assert not settings_file(tmp_path, "project").exists()


async def test_what_cannot_be_written_is_told_once_and_the_session_loads(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        name = await answer(home, always=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "projects").write_text("no folder")
    for _ in range(2):
        async with house(tmp_path) as home:
            await home.reload(name)
    [path] = (tmp_path / "data").rglob("journal.jsonl")
    codes = [json.loads(line).get("code") for line in path.read_text().splitlines()]
    assert codes.count("rule_not_persisted") == 1


async def test_a_fork_writes_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        name = await answer(home, always=True)
        live = await home.hub.get(name)
        live.cancel()
        await home.until_idle(live)
        fork, _ = await home.hub.fork(name, None, {})
    async with house(tmp_path) as home:
        await home.reload(fork.id)
    assert not settings_file(tmp_path, "project").exists()
