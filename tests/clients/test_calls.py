"""Single calls: what goes over the wire, what comes back, and what happens when the connection breaks."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import fail_after
from pydantic import JsonValue

from agentcore.events import PermissionRequest, Skipped
from agentcore.messages import Text
from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from agentcore_client.errors import ApiError, ConnectionLost
from agentcore_client.retry import Backoff, RetryPolicy
from agentcore_client.values import Approval, BackgroundTask, GrantReport, Info, Rule, StoredMessage, Undo
from tests.clients.conftest import QUICK
from tests.clients.unruly import SESSION, STATE, TOKEN, Unruly

PATH = f"/v1/sessions/{SESSION}"
TASK = {"task_id": "bg-1", "kind": "bash", "label": "Build", "state": "running", "started": 1.0}
RULE = {"id": "cd34", "effect": "allow", "rule": "Bash(ls)", "scope": "user", "source": "settings.toml"}
APPROVAL = {
    "id": "ab12",
    "kind": "hook",
    "project": "/project",
    "source": ".claude/settings.json",
    "name": "Stop",
    "content": '{"type": "command", "command": "x"}',
    "sha256": "0" * 64,
    "state": "waiting",
}


def sent(unruly: Unruly) -> list[tuple[str, str, Any]]:
    return [(seen.method, seen.path, seen.body) for seen in unruly.seen]


def test_created_session_reads_on_from_its_state(unruly: Unruly, client: Client, tmp_path: Path) -> None:
    unruly.replies["POST /v1/sessions"] = (201, STATE)
    session = client.create_session(cwd=tmp_path, model="scripted/demo", max_turns=3)
    assert (session.id, session.cursor) == (SESSION, 1_000_003)
    body = {"cwd": str(tmp_path), "model": "scripted/demo", "max_turns": 3}
    assert sent(unruly) == [("POST", "/v1/sessions", body)]
    assert unruly.seen[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert unruly.seen[0].headers["Content-Type"] == "application/json"


def test_resume_and_continue_say_which_session(unruly: Unruly, client: Client, tmp_path: Path) -> None:
    unruly.replies["POST /v1/sessions"] = (200, STATE)
    client.resume_session("2026", mode="plan")
    client.resume_session()
    client.continue_session(tmp_path)
    assert [seen.body for seen in unruly.seen] == [
        {"resume": "2026", "mode": "plan"},
        {"resume": "latest"},
        {"continue": True, "cwd": str(tmp_path)},
    ]


UPLOADS = [
    (b"\x89PNG\r\n", None, "image/png"),
    (b"\xff\xd8\xff\xe0", None, "image/jpeg"),
    (b"GIF89a", None, "image/gif"),
    (b"RIFF____WEBP", None, "image/webp"),
    (b"%PDF-1.7", None, "application/pdf"),
    (b"# Title", None, "text/plain"),
    (b"# Title", "text/markdown", "text/markdown"),
]


@pytest.mark.parametrize(("data", "media_type", "sent_as"), UPLOADS)
def test_an_upload_says_what_its_bytes_are(
    unruly: Unruly, client: Client, tmp_path: Path, data: bytes, media_type: str | None, sent_as: str
) -> None:
    unruly.replies = {f"POST {PATH}/blobs": (201, {"blob": "ab" * 32, "media_type": "image/png", "size": 9, "new": 1})}
    session = client.session(SESSION)
    (tmp_path / "file").write_bytes(data)
    kept = session.upload(tmp_path / "file", media_type)
    assert session.upload(data, media_type) == kept
    assert (kept.attachment, kept.media_type, kept.size) == ({"blob": "ab" * 32}, "image/png", 9)
    assert sent(unruly) == [("POST", f"{PATH}/blobs", data)] * 2
    assert [seen.headers["Content-Type"] for seen in unruly.seen] == [sent_as] * 2


def test_an_upload_is_sent_again_after_a_cut(unruly: Unruly, client: Client) -> None:
    unruly.replies = {f"POST {PATH}/blobs": (201, {"blob": "ab" * 32, "media_type": "text/plain", "size": 1})}
    unruly.features, unruly.drops = [], 1
    assert client.session(SESSION).upload(b"x").size == 1
    assert sent(unruly) == [("POST", f"{PATH}/blobs", b"x")] * 2


def test_every_other_call_reaches_its_endpoint(unruly: Unruly, client: Client) -> None:
    accepted = {"session": SESSION, "prompt_id": "p", "after_seq": 4, "disposition": "started"}
    unruly.replies = {
        "GET /v1/sessions": (200, {"sessions": [{**STATE, "loaded": True}], "next_cursor": "c"}),
        f"GET {PATH}": (200, STATE),
        f"PATCH {PATH}": (200, STATE),
        f"DELETE {PATH}": (204, None),
        f"POST {PATH}/cancel": (200, {"cancelled": True}),
        f"POST {PATH}/resume": (202, accepted),
        f"POST {PATH}/clear": (204, None),
        f"POST {PATH}/compact": (200, {"summary": "Short."}),
        f"POST {PATH}/undo": (200, {"restored": ["a"], "deleted": [], "skipped": [{"path": "b", "why": "changed"}]}),
        f"GET {PATH}/permissions": (200, {"permissions": []}),
        f"GET {PATH}/tasks": (200, {"tasks": [TASK]}),
        f"DELETE {PATH}/tasks/bg-1": (204, None),
        "GET /v1/health": (200, {"ok": True}),
        "GET /v1/permissions/rules": (200, {"rules": [RULE]}),
        "DELETE /v1/permissions/rules/cd34": (204, None),
        "GET /v1/approvals": (200, {"approvals": [APPROVAL]}),
        "POST /v1/approvals/ab12": (204, None),
    }
    session = client.session(SESSION)
    page = client.list_sessions(limit=5, cursor="b")
    assert (page.next_cursor, page.sessions[0].loaded) == ("c", True)
    assert session.get().model == "scripted/demo"
    assert session.patch(title="new", mode="plan").id == SESSION
    assert session.cancel()
    assert session.resume_run().prompt_id == "p"
    session.clear()
    assert session.compact() == "Short."
    assert session.undo(dry_run=True) == Undo(restored=("a",), deleted=(), skipped=(Skipped(path="b", why="changed"),))
    assert session.permissions() == ()
    assert session.tasks() == (BackgroundTask.model_validate(TASK),)
    session.stop_task("bg-1")
    assert client.rules() == (Rule.model_validate(RULE),)
    client.revoke_rule("cd34")
    assert client.approvals() == (Approval.model_validate(APPROVAL),)
    client.decide_approval("ab12", allow=True)
    assert client.health()
    assert client.info() == Info(version="1", cwd="/project", roots=("/project",), features=("idempotency",))
    session.delete()
    assert sent(unruly) == [
        ("GET", "/v1/sessions?limit=5&cursor=b", None),
        ("GET", PATH, None),
        ("PATCH", PATH, {"title": "new", "mode": "plan"}),
        ("POST", f"{PATH}/cancel", {}),
        ("POST", f"{PATH}/resume", {}),
        ("POST", f"{PATH}/clear", {}),
        ("POST", f"{PATH}/compact", {}),
        ("POST", f"{PATH}/undo", {"dry_run": True}),
        ("GET", f"{PATH}/permissions", None),
        ("GET", f"{PATH}/tasks", None),
        ("DELETE", f"{PATH}/tasks/bg-1", None),
        ("GET", "/v1/permissions/rules", None),
        ("DELETE", "/v1/permissions/rules/cd34", None),
        ("GET", "/v1/approvals", None),
        ("POST", "/v1/approvals/ab12", {"allow": True}),
        ("GET", "/v1/health", None),
        ("GET", "/v1/info", None),
        ("DELETE", PATH, None),
    ]


def test_messages_keep_blocks_of_unknown_kinds(unruly: Unruly, client: Client) -> None:
    unknown: dict[str, JsonValue] = {"type": "hologram", "size": 3}
    content = [{"type": "text", "text": "hi", "newer": 1}, unknown]
    stored = {"index": 0, "id": "m", "seq": 2, "role": "user", "content": content}
    unruly.replies[f"GET {PATH}/messages"] = (200, {"messages": [stored], "last_seq": 9})
    page = client.session(SESSION).messages(after_seq=1, limit=10)
    blocks = (Text(text="hi"), unknown)
    assert page.messages == (StoredMessage(index=0, id="m", seq=2, role="user", content=blocks),)
    assert unruly.seen[0].path == f"{PATH}/messages?after_seq=1&limit=10"


def test_wide_answer_reports_what_became_of_it(unruly: Unruly, client: Client) -> None:
    report = {"allowed": True, "persisted": False, "rule": "shell(make)", "error": "disk full"}
    unruly.replies[f"POST {PATH}/permissions/perm-1"] = (200, report)
    assert client.session(SESSION).answer("perm-1", True) == GrantReport.model_validate(report)


def test_ids_cannot_change_the_path(unruly: Unruly, client: Client) -> None:
    with pytest.raises(ApiError):
        client.session("../info?x=").cancel()
    assert unruly.seen[0].path == "/v1/sessions/..%2Finfo%3Fx%3D/cancel"


def test_dropped_submission_is_sent_again_and_counts_once(unruly: Unruly, client: Client) -> None:
    unruly.drops = 2
    assert client.session(SESSION).submit("go").prompt_id == "prompt_1"
    assert unruly.prompts == 1
    submissions = [seen for seen in unruly.seen if seen.method == "POST"]
    assert len(submissions) == 2
    assert len({seen.headers["Idempotency-Key"] for seen in submissions}) == 1


def test_dropped_submission_is_not_sent_again_to_a_server_without_keys(unruly: Unruly, client: Client) -> None:
    unruly.features = ()
    unruly.drops = 1
    with pytest.raises(ConnectionLost):
        client.session(SESSION).submit("go")
    assert unruly.prompts == 1


def open_request(unruly: Unruly) -> None:
    unruly.features = ()  # nobody remembers the first answer
    unruly.open_requests["perm-1"] = b"{}"


@pytest.mark.parametrize("allow", [True, False])
def test_own_answer_that_arrived_before_the_cut_is_no_failure(unruly: Unruly, client: Client, allow: bool) -> None:
    open_request(unruly)
    unruly.drops = 2
    assert client.session(SESSION).answer("perm-1", allow) is None
    assert [seen.body for seen in unruly.seen] == [{"allow": allow}] * 3
    assert unruly.resolutions == {"perm-1": "allowed" if allow else "denied"}


@pytest.mark.anyio
async def test_own_answer_that_arrived_before_the_cut_is_no_failure_for_tasks(
    unruly: Unruly, async_client: AsyncClient
) -> None:
    open_request(unruly)
    unruly.drops = 1
    with fail_after(5):
        assert await async_client.session(SESSION).answer("perm-1", True) is None
    assert len(unruly.seen) == 2


@pytest.mark.parametrize(
    ("drops", "resolution"), [(1, "denied"), (1, "expired"), (1, "cancelled"), (0, "allowed"), (0, "denied")]
)
def test_answer_of_somebody_else_is_a_failure(unruly: Unruly, client: Client, drops: int, resolution: str) -> None:
    unruly.resolutions["perm-1"] = resolution
    unruly.drops = drops
    with pytest.raises(ApiError) as caught:
        client.session(SESSION).answer("perm-1", True)
    assert (caught.value.code, caught.value.details) == ("already_resolved", {"resolution": resolution})


def test_attempt_that_reached_nobody_is_no_first_sending(unruly: Unruly, client: Client) -> None:
    unruly.resolutions["perm-1"] = "allowed"
    http, attempts = client._transport._http, iter([httpx.ConnectError("refused"), httpx.ConnectTimeout("slow")])
    send = http.send

    def unreachable_twice(request: httpx.Request) -> httpx.Response:
        if (error := next(attempts, None)) is not None:
            raise error
        return send(request)

    http.send = unreachable_twice  # type: ignore[method-assign, assignment]  # no real network fails on demand
    with pytest.raises(ApiError):
        client.session(SESSION).answer("perm-1", True)
    assert len(unruly.seen) == 1


def test_two_submissions_of_the_same_text_are_two(unruly: Unruly, client: Client) -> None:
    session = client.session(SESSION)
    assert [session.submit("go").prompt_id for _ in range(2)] == ["prompt_1", "prompt_2"]


def test_waiting_prompt_joins_its_run_after_a_cut(unruly: Unruly, client: Client) -> None:
    outcome = {"session": SESSION, "prompt_id": "p", "text": "done", "stop_reason": "end_turn"}
    unruly.replies[f"POST {PATH}/prompt"] = (200, outcome)
    unruly.drops = 2
    assert client.session(SESSION).prompt_and_wait("go").text == "done"
    assert [seen.body for seen in unruly.seen if seen.body] == [{"text": "go", "wait": True}] * 2


def test_delete_is_not_sent_again_when_it_may_have_happened(unruly: Unruly, client: Client) -> None:
    unruly.drops = 1
    with pytest.raises(ConnectionLost):
        client.session(SESSION).delete()
    assert len(unruly.seen) == 1


def test_unreachable_server_is_connection_lost() -> None:
    with Client("http://127.0.0.1:9", TOKEN, call_retry=QUICK) as client, pytest.raises(ConnectionLost):
        client.health()


def test_refusal_carries_code_details_and_the_time_to_wait(unruly: Unruly, client: Client) -> None:
    problem = {"error": "stopping", "code": "draining", "details": {"until": 5}}
    unruly.replies[f"POST {PATH}/prompt"] = (503, problem)
    with pytest.raises(ApiError) as caught:
        client.session(SESSION).submit("go")
    error = caught.value
    assert (error.status, error.code, error.message) == (503, "draining", "stopping")
    assert (error.details, error.retry_after_s) == ({"until": 5}, 5.0)
    assert len(unruly.seen) == 1


def test_refusal_that_is_not_ours_still_has_a_code(unruly: Unruly, client: Client) -> None:
    unruly.replies["GET /v1/health"] = (502, "bad gateway")
    with pytest.raises(ApiError) as caught:
        client.health()
    assert (caught.value.status, caught.value.code) == (502, "http_502")


def test_answer_of_another_shape_is_an_api_error(unruly: Unruly, client: Client) -> None:
    unruly.replies[f"GET {PATH}"] = (200, {"id": 3})
    with pytest.raises(ApiError) as caught:
        client.session(SESSION).get()
    assert caught.value.code == "unexpected_answer"


def test_pauses_double_up_to_the_longest_and_start_over_on_progress() -> None:
    backoff = Backoff(RetryPolicy(attempts=99, first_s=1.0, longest_s=5.0), jitter=lambda: 1.0)
    assert [backoff.lost(None) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.progressed()
    assert backoff.lost(None) == 1.0
    assert RetryPolicy(first_s=1.0).pause_s(1, 0.0) == 0.5


def test_pause_is_at_least_what_the_server_asked_for() -> None:
    backoff = Backoff(RetryPolicy(), jitter=lambda: 0.0)
    assert backoff.lost(ApiError(503, "draining", "later", retry_after_s=5.0)) == 5.0
    assert backoff.lost(ApiError(503, "draining", "later", retry_after_s=86400.0)) == 30.0


@pytest.mark.anyio
async def test_async_client_makes_the_same_calls(unruly: Unruly, async_client: AsyncClient, tmp_path: Path) -> None:
    pending = {
        "type": "permission_request",
        "seq": 5,
        "request_id": "perm-1",
        "kind": "tool",
        "call_id": "c",
        "tool_name": "shell",
        "input": {},
        "digest": "d",
        "newer": 1,
    }
    unruly.replies = {
        "POST /v1/sessions": (201, STATE),
        f"GET {PATH}/permissions": (200, {"permissions": [pending]}),
        f"DELETE {PATH}": (204, None),
    }
    unruly.drops = 1
    with fail_after(5):
        session = await async_client.create_session(cwd=tmp_path)
        requests = await session.permissions()
        assert (await session.submit("go")).after_seq == 0
        await session.delete()
    assert [(request.request_id, request.seq) for request in requests] == [("perm-1", 5)]
    assert isinstance(requests[0], PermissionRequest)
    assert [seen.method for seen in unruly.seen] == ["POST", "GET", "POST", "GET", "POST", "DELETE"]
