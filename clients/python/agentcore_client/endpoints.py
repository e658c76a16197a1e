"""The endpoints, one function each: arguments in, a `Call` out. No I/O.

`session` may be an id or `latest`. Every POST carries an idempotency key of its own, made here once, so that a repeated
sending is the same submission.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, Unpack, cast
from urllib.parse import quote

from pydantic import JsonValue

from agentcore.events import PermissionRequest, QueuedPrompt
from agentcore_client.call import Call, Feed, File, new_key
from agentcore_client.errors import ApiError
from agentcore_client.values import (
    Accepted,
    Answer,
    Approval,
    BackgroundTask,
    Blob,
    Fork,
    GrantReport,
    Info,
    MessagePage,
    Outcome,
    PromptOptions,
    Received,
    Rule,
    SessionPage,
    SessionState,
    Settings,
    Shown,
    Undo,
    Why,
)

Body = Mapping[str, JsonValue]
R = TypeVar("R", bound=Received)

_STARTS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF-", "application/pdf"),
)
"""How the files begin that the server takes besides text."""


class _Health(Received):
    ok: bool


class _Approvals(Received):
    approvals: tuple[Approval, ...]


class _Compacted(Received):
    summary: str


class _Cancelled(Received):
    cancelled: bool


class _Suspending(Received):
    suspending: bool


class _Queue(Received):
    queue: tuple[QueuedPrompt, ...]


class _Tasks(Received):
    tasks: tuple[BackgroundTask, ...]


class _Permissions(Received):
    permissions: tuple[PermissionRequest, ...]


def health() -> Call[bool]:
    return Call("GET", "/v1/health", lambda content: _reader(_Health)(content).ok)


def info() -> Call[Info]:
    return Call("GET", "/v1/info", _reader(Info))


class _Rules(Received):
    rules: tuple[Rule, ...]


def rules() -> Call[tuple[Rule, ...]]:
    return Call("GET", "/v1/permissions/rules", lambda content: _reader(_Rules)(content).rules)


def revoke_rule(rule_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/permissions/rules/{quote(rule_id, safe='')}", _nothing)


def approvals() -> Call[tuple[Approval, ...]]:
    def read(content: bytes) -> tuple[Approval, ...]:
        return _reader(_Approvals)(content).approvals

    return Call("GET", "/v1/approvals", read)


def decide_approval(approval_id: str, allow: bool) -> Call[None]:
    path = f"/v1/approvals/{quote(approval_id, safe='')}"
    return Call("POST", path, _nothing, {"allow": allow}, key=new_key(), is_harmless_twice=True)


def create_session(cwd: str | Path | None, **settings: Unpack[Settings]) -> Call[SessionState]:
    return _open_session({**_folder(cwd), **_plain(settings)})


def resume_session(which: str, *, takeover: bool, **settings: Unpack[Settings]) -> Call[SessionState]:
    """Load a session by id, unique prefix or `latest`."""
    return _open_session({"resume": which, **_takeover(takeover), **_plain(settings)})


def continue_session(cwd: str | Path | None, *, takeover: bool, **settings: Unpack[Settings]) -> Call[SessionState]:
    """Load the newest session of a folder."""
    return _open_session({"continue": True, **_folder(cwd), **_takeover(takeover), **_plain(settings)})


def list_sessions(limit: int | None, cursor: str | None) -> Call[SessionPage]:
    query = {"limit": limit, "cursor": cursor}
    return Call("GET", "/v1/sessions", _reader(SessionPage), query=query)


def get_session(session: str) -> Call[SessionState]:
    return Call("GET", path_of(session), _reader(SessionState))


def why(session: str) -> Call[Why]:
    return Call("GET", path_of(session, "why"), _reader(Why))


def events(session: str, **shown: Unpack[Shown]) -> Feed:
    return Feed(path_of(session, "events"), _shown(shown))


def all_events(sessions: Sequence[str], **shown: Unpack[Shown]) -> Feed:
    """The stream over many sessions: over these, or over all of them where none is named."""
    return Feed("/v1/events", {**({"sessions": ",".join(sessions)} if sessions else {}), **_shown(shown)})


def patch_session(session: str, **settings: Unpack[Settings]) -> Call[SessionState]:
    return Call("PATCH", path_of(session), _reader(SessionState), _plain(settings))


def delete_session(session: str) -> Call[None]:
    return Call("DELETE", path_of(session), _nothing)


def messages(session: str, after_seq: int | None, limit: int | None) -> Call[MessagePage]:
    query = {"after_seq": after_seq, "limit": limit}
    return Call("GET", path_of(session, "messages"), _reader(MessagePage), query=query)


def prompt(session: str, text: str, **options: Unpack[PromptOptions]) -> Call[Accepted]:
    body = {"text": text, **_plain(options)}
    return _post(path_of(session, "prompt"), Accepted, body)


def prompt_and_wait(session: str, text: str, **options: Unpack[PromptOptions]) -> Call[Outcome]:
    """The answer comes at the end of the run. Repeating it after a cut joins the same run, thanks to the key."""
    body: Body = {"text": text, "wait": True, **_plain(options)}
    return replace(_post(path_of(session, "prompt"), Outcome, body), read_s=None)


def upload(session: str, data: bytes, media_type: str | None) -> Call[Blob]:
    """The same bytes are kept once, so sending them twice is harmless."""
    file = File(data, media_type or _media_type_of(data))
    return Call("POST", path_of(session, "blobs"), _reader(Blob), file=file, is_harmless_twice=True)


def cancel(session: str) -> Call[bool]:
    def read(content: bytes) -> bool:
        return _reader(_Cancelled)(content).cancelled

    return Call("POST", path_of(session, "cancel"), read, {}, key=new_key(), is_harmless_twice=True)


def resume_run(session: str) -> Call[Accepted]:
    return _post(path_of(session, "resume"), Accepted, {})


def suspend(session: str) -> Call[bool]:
    def read(content: bytes) -> bool:
        return _reader(_Suspending)(content).suspending

    return Call("POST", path_of(session, "suspend"), read, {}, key=new_key(), is_harmless_twice=True)


def queue(session: str) -> Call[tuple[QueuedPrompt, ...]]:
    return Call("GET", path_of(session, "queue"), _queue)


def reorder_queue(session: str, prompt_ids: Sequence[str]) -> Call[tuple[QueuedPrompt, ...]]:
    return Call("PATCH", path_of(session, "queue"), _queue, {"order": list(prompt_ids)})


def clear_queue(session: str) -> Call[None]:
    return Call("DELETE", path_of(session, "queue"), _nothing)


def queued(session: str, prompt_id: str) -> Call[QueuedPrompt]:
    return Call("GET", path_of(session, "queue", prompt_id), _queued)


def edit_queued(session: str, prompt_id: str, text: str) -> Call[QueuedPrompt]:
    return Call("PATCH", path_of(session, "queue", prompt_id), _queued, {"text": text})


def remove_queued(session: str, prompt_id: str) -> Call[None]:
    return Call("DELETE", path_of(session, "queue", prompt_id), _nothing)


def tasks(session: str) -> Call[tuple[BackgroundTask, ...]]:
    return Call("GET", path_of(session, "tasks"), lambda content: _reader(_Tasks)(content).tasks)


def stop_task(session: str, task_id: str) -> Call[None]:
    return Call("DELETE", path_of(session, "tasks", task_id), _nothing)


def answer_deferred(session: str, token: str, output: str, is_error: bool) -> Call[None]:
    body: Body = {"output": output, "is_error": is_error}
    return Call("POST", path_of(session, "deferred", token), _nothing, body, key=new_key())


def clear(session: str) -> Call[None]:
    return Call("POST", path_of(session, "clear"), _nothing, {}, key=new_key(), is_harmless_twice=True)


def undo(session: str, dry_run: bool) -> Call[Undo]:
    return Call("POST", path_of(session, "undo"), _reader(Undo), {"dry_run": dry_run}, key=new_key(), read_s=None)


def compact(session: str) -> Call[str]:
    def read(content: bytes) -> str:
        return _reader(_Compacted)(content).summary

    return Call("POST", path_of(session, "compact"), read, {}, key=new_key(), read_s=None)


def fork(session: str, at: str | int | None, **settings: Unpack[Settings]) -> Call[Fork]:
    place: Body = {} if at is None else {"at": at}
    return _post(path_of(session, "fork"), Fork, {**place, **_plain(settings)})


def export(session: str, form: str) -> Call[bytes]:
    return Call("GET", path_of(session, "export"), bytes, query={"format": form})


def trace(session: str) -> Call[bytes]:
    return Call("GET", path_of(session, "trace"), bytes)


def permissions(session: str) -> Call[tuple[PermissionRequest, ...]]:
    path = path_of(session, "permissions")
    return Call("GET", path, lambda content: _reader(_Permissions)(content).permissions)


def answer(session: str, request_id: str, said: Answer) -> Call[GrantReport | None]:
    path = path_of(session, "permissions", request_id)
    body = said.model_dump(mode="json", exclude_none=True)
    resolution = "allowed" if said.allow else "denied"

    def is_own_effect(error: ApiError) -> bool:
        return error.code == "already_resolved" and error.details.get("resolution") == resolution

    return Call("POST", path, _grant_report, body, key=new_key(), is_harmless_twice=True, is_own_effect=is_own_effect)


def path_of(session: str, *rest: str) -> str:
    """The path of a session, or of something in it."""
    return "/".join(["/v1/sessions", *(quote(part, safe="") for part in (session, *rest))])


def _shown(shown: Shown) -> dict[str, str]:
    kinds, detail = shown.get("kinds"), shown.get("detail")
    named = {} if kinds is None else {"kinds": ",".join(kinds)}
    return named if detail is None else {**named, "detail": detail}


def _takeover(is_wanted: bool) -> Body:
    return {"takeover": True} if is_wanted else {}


def _open_session(body: Body) -> Call[SessionState]:
    return _post("/v1/sessions", SessionState, body)


def _post(path: str, answer: type[R], body: Body) -> Call[R]:
    return Call("POST", path, _reader(answer), body, key=new_key())


def _reader(model: type[R]) -> Callable[[bytes], R]:
    """Read a model and ignore what a newer server added, also inside the closed values of the vocabulary."""

    def read(content: bytes) -> R:
        return model.model_validate_json(content, extra="ignore")

    return read


def _queue(content: bytes) -> tuple[QueuedPrompt, ...]:
    return _reader(_Queue)(content).queue


def _queued(content: bytes) -> QueuedPrompt:
    return QueuedPrompt.model_validate_json(content, extra="ignore")


def _nothing(content: bytes) -> None:
    return None


def _grant_report(content: bytes) -> GrantReport | None:
    return _reader(GrantReport)(content) if content else None


def _media_type_of(data: bytes) -> str:
    return next((media_type for start, media_type in _STARTS if data.startswith(start)), "text/plain")


def _plain(options: Settings | PromptOptions) -> Body:
    return cast(Body, options)


def _folder(cwd: str | Path | None) -> Body:
    """Absolute, because the server has a working directory of its own."""
    return {} if cwd is None else {"cwd": str(Path(cwd).resolve())}
