"""Standing rules over HTTP: what is listed, what is taken back, and that it is in force at once and for good."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.app import App
from agentcore.sessions.store import project_of
from server.asgi import Application, core_config
from server.hub import Hub
from server.live import LiveSession
from server.settings import Folders, ServerSettings
from tests.fakes import FakeClock, FakeProvider, FakeProviders, call, say, use

pytestmark = pytest.mark.anyio

TOKEN = "rules-token"
MAKE = call("bash", command="make all")


class Served:
    """The whole application in process, with a model that says what it is told."""

    def __init__(self, root: Path, http: httpx.AsyncClient, hub: Hub, provider: FakeProvider, clock: FakeClock) -> None:
        self.root, self.http, self.hub, self.provider, self.clock = root, http, hub, provider, clock

    @property
    def project(self) -> str:
        return f"projects/{project_of((self.root / 'work').resolve())}/settings.toml"

    def write(self, name: str, text: str) -> Path:
        file = self.root / "config" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    async def session(self) -> LiveSession:
        created = await self.http.post("/v1/sessions", json={})
        return await self.hub.get(created.json()["id"])

    async def rules(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = (await self.http.get("/v1/permissions/rules")).json()["rules"]
        return found

    async def revoke(self, rule: dict[str, object]) -> httpx.Response:
        return await self.http.delete(f"/v1/permissions/rules/{rule['id']}")

    async def grant(self, live: LiveSession, scope: str, **more: object) -> dict[str, object]:
        """Let `make all` run once, and from now on."""
        self.provider.script(use(MAKE), say("Made."))
        await self.prompt(live)
        request = live.requests.open[0]
        path = f"/v1/sessions/{live.id}/permissions/{request.request_id}"
        answer = await self.http.post(path, json={"allow": True, "scope": scope, **more})
        assert (answer.status_code, answer.json()["rule"]) == (200, "Bash(make all)")
        await self.idle(live)
        granted: dict[str, object] = answer.json()
        return granted

    async def asks(self, live: LiveSession) -> bool:
        """Whether `make all` waits for a person; the run is cancelled then."""
        self.provider.turns.clear()
        self.provider.script(use(MAKE), say("Made."))
        await self.prompt(live)
        is_asked = bool(live.requests.open)
        live.cancel()
        await self.idle(live)
        return is_asked

    async def prompt(self, live: LiveSession) -> None:
        """Run until a person is asked, or to the end."""
        assert (await self.http.post(f"/v1/sessions/{live.id}/prompt", json={"text": "go"})).status_code == 202
        with anyio.fail_after(5):
            while live.is_busy and not live.requests.open:  # noqa: ASYNC110 - lets workers run
                await anyio.sleep(0.001)

    async def idle(self, live: LiveSession) -> None:
        with anyio.fail_after(5):
            while live.is_busy:  # noqa: ASYNC110 - lets workers run
                await anyio.sleep(0.001)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    (tmp_path / "work").mkdir()
    settings = ServerSettings(
        cwd=tmp_path / "work",
        roots=((tmp_path / "work").resolve(),),
        folders=Folders(tmp_path / "config", tmp_path / "data", tmp_path / "state"),
        token=TOKEN,
        model="scripted/fake",
    )
    provider, clock = FakeProvider(), FakeClock()
    application = Application(settings, App(core_config(settings), providers=FakeProviders(provider), clock=clock))
    await application.start()
    transport = httpx.ASGITransport(application.app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:80", headers=headers) as http:
        yield Served(tmp_path, http, application._routes.state.hub, provider, clock)
    await application.stop()


def without_ids(rules: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in rule.items() if key != "id"} for rule in rules]


MAKES = {"effect": "allow", "rule": "Bash(make all)"}


async def test_rules_are_listed_with_where_they_stand(served: Served) -> None:
    assert await served.rules() == []
    served.write("settings.toml", '[permissions]\nallow = ["bash(ls)"]\ndeny = ["Read(.env)", "Bash("]')
    served.write("projects/other-1/settings.toml", '[permissions]\nask = ["Bash(make:*)"]')
    served.write("projects/broken-1/settings.toml", "no toml")
    (served.root / "work" / ".claude").mkdir()
    (served.root / "work" / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Bash(rm *)"]}}')
    own = [
        {"effect": "allow", "rule": "Bash(ls)", "scope": "user", "source": "settings.toml"},
        {"effect": "deny", "rule": "Read(.env)", "scope": "user", "source": "settings.toml"},
        {"effect": "deny", "rule": "Bash(", "scope": "user", "source": "settings.toml"},
        {"effect": "ask", "rule": "Bash(make:*)", "scope": "project", "source": "projects/other-1/settings.toml"},
    ]
    by_source = sorted(without_ids(await served.rules()), key=lambda rule: str(rule["source"]), reverse=True)
    assert by_source == own
    await served.session()
    await served.session()
    rules = await served.rules()
    shared = {"effect": "deny", "rule": "Bash(rm *)", "scope": "project", "source": ".claude/settings.json"}
    assert [rule for rule in without_ids(rules) if rule not in own] == [shared]
    assert len({rule["id"] for rule in rules}) == len(rules) == 5
    assert await served.rules() == rules


async def test_a_session_grant_is_taken_back_at_once_and_for_good(served: Served) -> None:
    live = await served.session()
    await served.grant(live, "session")
    assert not await served.asks(live)
    (rule,) = await served.rules()
    assert without_ids([rule]) == [{**MAKES, "scope": "session", "source": "session", "session": live.id}]
    assert (await served.revoke(rule)).status_code == 204
    assert await served.rules() == []
    assert await served.asks(live)
    again = await served.revoke(rule)
    assert (again.status_code, again.json()["code"]) == (404, "not_found")
    await served.hub.close(live, "enough")
    loaded, _ = await served.hub.load(live.id)
    assert await served.asks(loaded)


@pytest.mark.parametrize("scope", ["project", "user"])
async def test_what_always_wrote_holds_in_every_loaded_session_until_it_is_taken_back(
    served: Served, scope: str
) -> None:
    first, second = await served.session(), await served.session()
    await served.grant(first, scope)
    source = served.project if scope == "project" else "settings.toml"
    (rule,) = await served.rules()
    assert without_ids([rule]) == [{**MAKES, "scope": scope, "source": source}]
    assert not await served.asks(second)
    assert (await served.revoke(rule)).status_code == 204
    assert "make" not in (served.root / "config" / source).read_text()
    assert [await served.asks(live) for live in (first, second, await served.session())] == [True, True, True]
    assert await served.rules() == []


@pytest.mark.parametrize("scope", ["session", "project", "user"])
async def test_a_grant_may_expire_and_is_listed_with_when(served: Served, scope: str) -> None:
    live, expires_at = await served.session(), served.clock.now() + 3600
    granted = await served.grant(live, scope, expires_in_s=3600)
    assert granted == {
        "allowed": True,
        "persisted": scope != "session",
        "rule": "Bash(make all)",
        "expires_at": expires_at,
    }
    assert [rule["expires_at"] for rule in await served.rules()] == [expires_at]
    assert not await served.asks(live)
    served.clock.time = expires_at
    assert await served.rules() == []
    assert [await served.asks(one) for one in (live, await served.session())] == [True, True]


async def test_an_expiring_rule_can_be_taken_back_before(served: Served) -> None:
    live = await served.session()
    await served.grant(live, "user", expires_in_s=3600)
    (rule,) = await served.rules()
    assert (await served.revoke(rule)).status_code == 204
    assert "make" not in (served.root / "config" / "settings.toml").read_text()
    assert await served.asks(live)


async def test_an_expiry_without_a_grant_is_refused(served: Served) -> None:
    live = await served.session()
    served.provider.script(use(MAKE), say("Made."))
    await served.prompt(live)
    path = f"/v1/sessions/{live.id}/permissions/{live.requests.open[0].request_id}"
    for more in ({}, {"scope": "once"}, {"always": True, "expires_in_s": 0}, {"always": True, "expires_in_s": "soon"}):
        refused = await served.http.post(path, json={"allow": True, "expires_in_s": 5, **more})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert len(live.requests.open) == 1


async def test_taking_a_rule_back_leaves_the_rest_of_the_file_alone(served: Served) -> None:
    text = '# mine\n[permissions]\nallow = ["bash( make all)", "Bash(ls)"]  # both\ndeny = ["Bash(make all)"]\n'
    file = served.write("settings.toml", text.replace("( make", "(make"))
    rules = {(rule["effect"], rule["rule"]): rule for rule in await served.rules()}
    assert (await served.revoke(rules["allow", "Bash(make all)"])).status_code == 204
    assert file.read_text() == '# mine\n[permissions]\nallow = ["Bash(ls)"]  # both\ndeny = ["Bash(make all)"]\n'


async def test_what_only_the_user_changes_is_named_and_stays(served: Served) -> None:
    file = served.write("settings.toml", '[permissions]\ndeny = ["Bash(rm *)"]')
    folder = served.root / "work" / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text('{"permissions": {"ask": ["Bash(make:*)"]}}')
    live = await served.session()
    for rule in await served.rules():
        refused = await served.revoke(rule)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        assert str(rule["source"]) in refused.json()["error"]
    assert "rm" in file.read_text()
    assert await served.asks(live)


async def test_an_unknown_rule_is_not_found(served: Served) -> None:
    refused = await served.http.delete("/v1/permissions/rules/nothing")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


async def test_settings_that_cannot_be_written_keep_the_rule(served: Served) -> None:
    served.write("settings.toml", '[permissions]\nallow = ["Bash(make all)"]')
    live = await served.session()
    (served.root / "config" / "settings.new").mkdir()
    (rule,) = await served.rules()
    refused = await served.revoke(rule)
    assert (refused.status_code, refused.json()["code"]) == (507, "storage_unavailable")
    assert await served.rules() == [rule]
    assert not await served.asks(live)


@pytest.mark.parametrize("scope", ["project", "user"])
async def test_a_rule_that_was_written_once_is_not_written_again_by_a_load(served: Served, scope: str) -> None:
    live = await served.session()
    await served.grant(live, scope)
    (rule,) = await served.rules()
    assert (await served.revoke(rule)).status_code == 204
    await served.hub.close(live, "enough")
    await served.hub.load(live.id)
    assert await served.rules() == []
