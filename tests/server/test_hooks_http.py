"""Web addresses as hooks: what they are sent, what of their answer counts, and that none can hold up a run."""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.events import Notice
from agentcore.hooks.payloads import Now
from agentcore.hooks.reading import handlers_of, read_hooks
from agentcore.hooks.room import HookRoom, Scene
from agentcore.hooks.session import SessionHooks
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.ports.hooks import BeforeCall
from agentcore.ports.permission import HookSays

pytestmark = pytest.mark.anyio

BASH = ToolCall(id="c1", name="bash", input={"command": "git push"})
DENY = json.dumps(
    {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no",
        }
    }
)


@dataclass
class Site:
    """A web site that answers as it is told, and what it was sent."""

    url: str = ""
    status: int = 200
    body: str = ""
    location: str | None = None
    is_endless: bool = False
    holds: threading.Event = field(default_factory=threading.Event)
    got: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    told = Site()
    told.holds.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.got.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(body))
            )
            told.holds.wait()
            self.send_response(told.status)
            if told.location is not None:
                self.send_header("location", told.location)
            self.end_headers()
            try:
                self.wfile.write(told.body.encode())
                while told.is_endless:
                    self.wfile.write(b" " * 65536)
            except OSError:
                told.is_endless = False  # nobody reads any more

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/hook?key=hidden"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield told
    told.holds.set()
    server.shutdown()
    thread.join()
    server.server_close()


def hooks(url: str, notices: list[Notice], **more: Any) -> SessionHooks:
    handler = {"type": "http", "url": url, **more}
    file = read_hooks({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}, Origin("settings.toml"))
    assert file.problems == ()
    environ = {"HOOK_KEY": "k-1", "OTHER_KEY": "k-2"}
    scene = Scene(
        now=lambda: Now("ses-1", "/journal.jsonl", Path("/work"), "default"),
        project=Path("/work"),
        environ=environ,
        secrets=environ,
        tell=notices.append,
        later=lambda run: None,
        is_approved=lambda origin, sha256: False,
        is_about=lambda rule, call: None,
        keep=lambda text: None,
    )
    return SessionHooks(HookRoom(handlers_of([file]), scene))


async def test_an_address_gets_the_input_and_only_the_variables_that_were_allowed(site: Site) -> None:
    headers = {"Authorization": "Bearer $HOOK_KEY", "X-Other": "<${OTHER_KEY}>", "X-Plain": "a$b"}
    told = hooks(site.url, [], headers=headers, allowedEnvVars=["HOOK_KEY"])
    assert await told.before_call(BASH) == BeforeCall()
    [(path, got, body)] = site.got
    assert path == "/hook?key=hidden"
    assert (got["authorization"], got["x-other"], got["x-plain"]) == ("Bearer k-1", "<>", "a")
    assert got["content-type"] == "application/json"
    assert (body["hook_event_name"], body["tool_name"], body["tool_input"]) == ("PreToolUse", "Bash", BASH.input)


async def test_json_of_a_good_answer_counts(site: Site) -> None:
    site.body = DENY
    assert await hooks(site.url, []).before_call(BASH) == BeforeCall(says=HookSays("deny", "no"))


@pytest.mark.parametrize("status", [302, 403, 500])
async def test_no_status_blocks_and_no_redirect_is_followed(site: Site, status: int) -> None:
    site.status, site.body, site.location = status, DENY, site.url
    notices: list[Notice] = []
    assert await hooks(site.url, notices).before_call(BASH) == BeforeCall()
    assert len(site.got) == 1
    name = "The hook PreToolUse[0].hooks[0] in settings.toml (127.0.0.1)"
    assert [(one.code, one.text) for one in notices] == [("hook_failed", f"{name} was answered with HTTP {status}.")]


async def test_nobody_there_is_a_notice_without_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url, notices = f"http://127.0.0.1:{taken.getsockname()[1]}/?key=hidden", list[Notice]()
        assert await hooks(url, notices).before_call(BASH) == BeforeCall()
    [notice] = notices
    assert notice.text.endswith("was not answered (ConnectError).")
    assert "hidden" not in notice.text


async def test_a_silent_address_decides_nothing(site: Site) -> None:
    site.holds.clear()
    notices: list[Notice] = []
    with anyio.fail_after(10):
        assert await hooks(site.url, notices, timeout=0.3).before_call(BASH) == BeforeCall()
    assert notices[0].text.endswith("did not finish within 0.3 s and was ended.")


async def test_an_endless_answer_is_bounded(site: Site) -> None:
    site.body, site.is_endless = "{", True
    notices: list[Notice] = []
    with anyio.fail_after(20):
        assert await hooks(site.url, notices).before_call(BASH) == BeforeCall()
    assert notices[0].text.endswith("printed what begins like JSON and is none.")


async def test_an_address_that_must_not_fail_open_says_no(site: Site) -> None:
    site.status = 500
    heard = await hooks(site.url, [], fail_closed=True).before_call(BASH)
    assert heard.says.verdict == "deny"
