"""Uploads and attachments over HTTP: what is taken, what is refused and in which order, and that nothing is lost."""

import base64
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentcore.caps import HARD_LIMIT_BYTES
from agentcore.events import Status
from agentcore.images import MAX_SIDE_PX
from agentcore.messages import Block, Document, Image, Text
from server.guard import MAX_BLOB_BYTES, MAX_BODY_BYTES
from server.live import LiveSession
from tests.daemon import Daemon, running
from tests.fakes import Turn, house, say
from tests.pictures import PDF, PDF_END, picture, size_of
from tests.server.test_guard import BEARER, CHUNKED, HOST, PAGE, ask

pytestmark = pytest.mark.anyio

BLOBS = "/v1/sessions/s1/blobs"
PNG = picture()
STORY = {"turns": [{"text": "Seen."}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("blobs")
    with running(root, "--model", Daemon(root).script("story", STORY)) as daemon:
        yield daemon
        assert "Traceback" not in daemon.log()


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


@pytest.fixture
async def session(http: httpx.AsyncClient) -> str:
    return str((await http.post("/v1/sessions", json={})).json()["id"])


async def upload(http: httpx.AsyncClient, session: str, data: bytes, media_type: str) -> httpx.Response:
    return await http.post(f"/v1/sessions/{session}/blobs", content=data, headers={"Content-Type": media_type})


async def prompt(http: httpx.AsyncClient, session: str, *attachments: object, text: str = "Look.") -> httpx.Response:
    body = {"text": text, "attachments": list(attachments), "wait": True}
    return await http.post(f"/v1/sessions/{session}/prompt", json=body)


async def said(http: httpx.AsyncClient, session: str) -> list[dict[str, Any]]:
    """The content of the last message of the person."""
    messages = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    content: list[dict[str, Any]] = [one for one in messages if one["role"] == "user"][-1]["content"]
    return content


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def inline(data: bytes, media_type: str) -> dict[str, str]:
    return {"media_type": media_type, "data": base64.b64encode(data).decode()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- the guard ----------------------------------------------------------------------------------------------------

TAKEN = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "application/json", "text/plain"]
TAKEN += ["text/x-python", "Text/Markdown; charset=utf-8", 'application/json;charset="UTF-8"', "IMAGE/PNG"]
NOT_TAKEN = ["", "image/svg+xml", "image/heic", "image/png; charset=utf-8", "application/octet-stream", "text/"]
NOT_TAKEN += ["text/plain; charset=latin-1", "multipart/form-data; boundary=x", "image/png, text/plain", "text/a b"]


@pytest.mark.parametrize("media_type", TAKEN)
async def test_an_upload_of_a_known_kind_is_let_in(media_type: str) -> None:
    headers = (HOST, BEARER, ("content-type", media_type), ("content-length", "2"))
    assert (await ask(*headers, method="POST", path=BLOBS, body=(b"ab",))).body == b"in:2"


@pytest.mark.parametrize("media_type", NOT_TAKEN)
async def test_an_upload_of_another_kind_is_refused_unread(media_type: str) -> None:
    headers = (HOST, BEARER, ("content-type", media_type), ("content-length", "2"))
    answer = await ask(*headers, method="POST", path=BLOBS, body=(b"ab",))
    assert (answer.status, answer.code, answer.read) == (415, "unsupported_media_type", 0)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/sessions/s1/prompt"),
        ("POST", "/v1/sessions"),
        ("POST", "/v1/sessions/s1/blobs/"),
        ("POST", "/v1/sessions/s1/x/blobs"),
        ("POST", "/v1/blobs"),
        ("PUT", BLOBS),
        ("POST", f"{BLOBS}/{'0' * 64}"),
    ],
)
async def test_everywhere_else_text_is_refused_as_before(method: str, path: str) -> None:
    headers = (HOST, BEARER, ("content-type", "text/plain"), ("content-length", "2"))
    answer = await ask(*headers, method=method, path=path, body=(b"{}",))
    assert (answer.status, answer.code, answer.read) == (415, "unsupported_media_type", 0)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((("origin", "https://evil.example"),), 403),
        ((("origin", "https://evil.example"), BEARER), 403),
        ((("origin", "null"),), 403),
        ((("sec-fetch-site", "cross-site"),), 403),
        ((("origin", PAGE),), 401),
        ((), 401),
        ((("authorization", "Bearer wrong"),), 401),
    ],
)
async def test_a_simple_request_of_a_page_gets_no_upload_in_and_is_not_read(
    headers: tuple[tuple[str, str], ...], status: int
) -> None:
    given = (HOST, ("content-type", "text/plain"), ("content-length", "2"), *headers)
    answer = await ask(*given, method="POST", path=BLOBS, body=(b"ab",))
    assert (answer.status, answer.read) == (status, 0)


ORDER = [
    ((("host", "evil.example"),), 403),
    ((HOST, ("origin", "https://evil.example")), 403),
    ((HOST,), 401),
    ((HOST, BEARER), 415),
    ((HOST, BEARER, ("content-type", "image/png")), 413),
]


@pytest.mark.parametrize(("headers", "status"), ORDER)
async def test_the_order_of_checks_is_kept(headers: tuple[tuple[str, str], ...], status: int) -> None:
    too_much = ("content-length", str(MAX_BLOB_BYTES + 1))
    answer = await ask(*headers, too_much, method="POST", path=BLOBS)
    assert (answer.status, answer.read) == (status, 0)


@pytest.mark.parametrize(("path", "limit"), [(BLOBS, MAX_BLOB_BYTES), ("/v1/sessions", MAX_BODY_BYTES)])
async def test_each_path_has_its_limit_also_without_a_length(path: str, limit: int) -> None:
    kind = ("content-type", "application/json")
    half = bytes(limit // 2)
    whole = await ask(HOST, BEARER, kind, CHUNKED, method="POST", path=path, body=(half, half))
    assert whole.body == b"in:%d" % limit
    answer = await ask(HOST, BEARER, kind, CHUNKED, method="POST", path=path, body=(half, half, b"x"))
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert f"{limit // 1024 // 1024} MiB" in json.loads(answer.body)["error"]


# --- uploading and fetching ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "media_type", "kept"),
    [
        (PNG, "image/png", "image/png"),
        (picture("JPEG"), "image/jpeg", "image/jpeg"),
        (PDF, "application/pdf", "application/pdf"),
        (b"# Title\n", "text/markdown", "text/plain"),
        (b"<script>alert(1)</script>", "text/html", "text/plain"),
        (b'{"a": 1}', "application/json", "text/plain"),
    ],
)
async def test_what_is_kept_comes_back_as_it_was(
    http: httpx.AsyncClient, session: str, data: bytes, media_type: str, kept: str
) -> None:
    answers = [await upload(http, session, data, media_type) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    stored = {"blob": sha256(data), "media_type": kept, "size": len(data)}
    assert [answer.json() for answer in answers] == [stored, stored]
    await http.delete(f"/v1/sessions/{session}")  # works of a session that is not loaded, too
    got = await http.get(f"/v1/sessions/{session}/blobs/{sha256(data)}")
    assert (got.status_code, got.content, got.headers["content-type"].partition(";")[0]) == (200, data, kept)
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers.get("content-disposition") == (None if kept.startswith("image/") else "attachment")


@pytest.mark.parametrize(("kind", "media_type"), [("GIF", "image/gif"), ("WEBP", "image/webp"), ("PNG", "image/png")])
async def test_a_picture_is_kept_as_every_model_takes_it(
    http: httpx.AsyncClient, session: str, kind: str, media_type: str
) -> None:
    stored = (await upload(http, session, picture(kind, (3136, 2000)), media_type)).json()
    got = await http.get(f"/v1/sessions/{session}/blobs/{stored['blob']}")
    assert size_of(got.content) == ("PNG", (MAX_SIDE_PX, 1000))
    assert stored == {"blob": sha256(got.content), "media_type": "image/png", "size": len(got.content)}


@pytest.mark.parametrize(
    ("data", "media_type", "refusal"),
    [
        (b"", "image/png", (400, "bad_request")),
        (PNG[:60], "image/png", (422, "unprocessable")),
        (PNG, "image/jpeg", (422, "unprocessable")),
        (PNG, "text/plain", (422, "unprocessable")),
        (b"no picture", "image/png", (422, "unprocessable")),
        (b"no paper", "application/pdf", (422, "unprocessable")),
        (b"\0binary", "text/plain", (422, "unprocessable")),
        (PNG, "image/svg+xml", (415, "unsupported_media_type")),
        (bytes(MAX_BLOB_BYTES + 1), "text/plain", (413, "body_too_large")),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    served: Daemon, http: httpx.AsyncClient, session: str, data: bytes, media_type: str, refusal: tuple[int, str]
) -> None:
    assert code_of(await upload(http, session, data, media_type)) == refusal
    assert not (served.journal(session).parent / "blobs").exists()


@pytest.mark.parametrize("name", ["0" * 64, "journal.jsonl", "..%2Fjournal.jsonl", sha256(PNG).upper()])
async def test_no_other_name_leads_to_a_file(http: httpx.AsyncClient, session: str, name: str) -> None:
    await upload(http, session, PNG, "image/png")
    assert code_of(await http.get(f"/v1/sessions/{session}/blobs/{name}")) == (404, "not_found")


async def test_a_blob_belongs_to_its_session(http: httpx.AsyncClient, session: str) -> None:
    await upload(http, session, PNG, "image/png")
    other = (await http.post("/v1/sessions", json={})).json()["id"]
    assert code_of(await http.get(f"/v1/sessions/{other}/blobs/{sha256(PNG)}")) == (404, "not_found")
    assert code_of(await prompt(http, other, {"blob": sha256(PNG)})) == (422, "unprocessable")


async def test_an_upload_needs_a_loaded_session(http: httpx.AsyncClient, session: str) -> None:
    await http.delete(f"/v1/sessions/{session}")
    assert code_of(await upload(http, session, PNG, "image/png")) == (404, "not_found")


# --- attachments --------------------------------------------------------------------------------------------------

IMAGE = {"type": "image", "blob": sha256(PNG), "media_type": "image/png", "size_bytes": len(PNG)}
IMAGE |= {"width": 8, "height": 6}
PAPER = {"type": "document", "blob": sha256(PDF), "media_type": "application/pdf", "size_bytes": len(PDF)}


async def test_every_way_in_comes_before_the_text(served: Daemon, http: httpx.AsyncClient, session: str) -> None:
    (served.cwd / "a.png").write_bytes(PNG)
    (served.cwd / "notes").mkdir(exist_ok=True)
    (served.cwd / "notes" / "b.md").write_text("# Notes")
    (served.cwd / "c.pdf").write_bytes(PDF)
    await upload(http, session, PNG, "image/png")
    ways = [{"blob": sha256(PNG)}, {"path": "a.png"}, inline(PNG, "image/png"), {"path": str(served.cwd / "c.pdf")}]
    ways += [{"path": "notes/b.md"}, inline(b'{"a": 1}', "application/json"), inline(PDF, "application/pdf")]
    answer = await prompt(http, session, *ways)
    assert (answer.status_code, answer.json()["text"]) == (200, "Seen.")
    assert await said(http, session) == [
        IMAGE,
        IMAGE,
        IMAGE,
        PAPER | {"name": "c.pdf"},
        {"type": "text", "text": "[Attached file: notes/b.md]\n# Notes"},
        {"type": "text", "text": '[Attached file: without a name]\n{"a": 1}'},
        PAPER,
        {"type": "text", "text": "Look."},
    ]
    event = next(event for event in served.events(session) if event["type"] == "user_message")
    assert event["display_text"] == "Look."


async def test_journal_and_answers_hold_references_and_never_bytes(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    noise = b"%PDF-1.7\n" + os.urandom(60_000).replace(b"/", b".") + PDF_END
    await prompt(http, session, inline(noise, "application/pdf"), inline(PNG, "image/png"))
    messages = (await http.get(f"/v1/sessions/{session}/messages")).content
    for place in (served.journal(session).read_bytes(), messages):
        assert sha256(noise).encode() in place
        assert base64.b64encode(noise)[:40] not in place
        assert len(place) < 30_000
    assert (served.journal(session).parent / "blobs" / sha256(noise)).read_bytes() == noise


async def test_a_picture_alone_is_a_prompt_and_nothing_at_all_is_none(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    assert code_of(await prompt(http, session, text=" \n")) == (400, "bad_request")
    assert (await prompt(http, session, inline(PNG, "image/png"), text=" \n")).status_code == 200
    assert await said(http, session) == [IMAGE]
    assert "title" not in (await http.get(f"/v1/sessions/{session}")).json()
    await prompt(http, session, text="What is it?")
    assert (await http.get(f"/v1/sessions/{session}")).json()["title"] == "What is it?"


async def test_a_long_text_is_cut_with_a_marker(http: httpx.AsyncClient, session: str) -> None:
    await prompt(http, session, inline(b"x" * (HARD_LIMIT_BYTES + 1000), "text/plain"))
    text = (await said(http, session))[0]["text"]
    assert "left out here" in text
    assert HARD_LIMIT_BYTES < len(text) < HARD_LIMIT_BYTES + 400


@pytest.fixture
def escapes(served: Daemon) -> dict[str, str]:
    """Paths that must not lead anywhere, by what they are."""
    outside = served.root / "outside.txt"
    outside.write_text("not yours")
    ssh = served.root / "home" / ".ssh"
    ssh.mkdir(exist_ok=True)
    (ssh / "id").write_text("secret")
    for name, target in (("out", outside), ("key", ssh / "id"), ("up", served.root), ("loop", served.cwd / "loop")):
        if not (served.cwd / name).is_symlink():
            (served.cwd / name).symlink_to(target)
    fifo, listener = served.cwd / "pipe", served.cwd / "socket"
    if not fifo.exists():
        os.mkfifo(fifo)
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(listener))
    return {
        "absolute": str(outside),
        "upwards": "../outside.txt",
        "link to a file": "out",
        "link to credentials": "key",
        "link to a folder": "up/outside.txt",
        "loop": "loop",
        "state": str(served.state_dir),
        "device": "/dev/zero",
        "pipe": "pipe",
        "socket": "socket",
        "folder": ".",
        "missing": "none.png",
        "NUL": "a\0.png",
    }


KINDS = ["absolute", "upwards", "link to a file", "link to credentials", "link to a folder", "loop", "state"]
KINDS += ["device", "pipe", "socket", "folder", "missing", "NUL"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_path_that_the_read_tool_may_not_read_is_refused(
    served: Daemon, http: httpx.AsyncClient, session: str, escapes: dict[str, str], kind: str
) -> None:
    with anyio.fail_after(10):
        answer = await prompt(http, session, {"path": escapes[kind]})
    assert code_of(answer) == (422, "unprocessable")
    told = answer.json()["error"]
    assert told.startswith("Attachment 1 cannot be used: ")
    assert str(served.root) not in told.replace(escapes[kind], "")


BAD: list[tuple[list[Any], tuple[int, str]]] = [
    ([inline(PNG, "image/png"), inline(PNG[:60], "image/png")], (422, "unprocessable")),
    ([inline(PNG, "image/jpeg")], (422, "unprocessable")),
    ([inline(b"PK\3\4" + bytes(9), "application/zip")], (422, "unprocessable")),
    ([inline(b"\0\0\0\x18ftypheic", "image/heic")], (422, "unprocessable")),
    ([inline(b"\0", "text/plain")], (422, "unprocessable")),
    ([{"media_type": "image/png", "data": "not base64!"}], (400, "bad_request")),
    ([{"media_type": "image/png", "data": "aGk"}], (400, "bad_request")),
    ([{"media_type": "video/mp4", "data": "aGk="}], (400, "bad_request")),
    ([{"blob": "0" * 64}], (422, "unprocessable")),
    ([{"blob": "../journal.jsonl"}], (400, "bad_request")),
    ([{"path": ""}], (400, "bad_request")),
    ([{"path": "a", "blob": "0" * 64}], (400, "bad_request")),
    ([{}], (400, "bad_request")),
    (["a.png"], (400, "bad_request")),
    ([inline(b"x", "text/plain")] * 21, (400, "bad_request")),
]


@pytest.mark.parametrize(("attachments", "refusal"), BAD)
async def test_a_bad_attachment_leaves_no_trace_of_a_prompt(
    served: Daemon, http: httpx.AsyncClient, session: str, attachments: list[Any], refusal: tuple[int, str]
) -> None:
    before = served.journal(session).read_bytes()
    assert code_of(await prompt(http, session, *attachments)) == refusal
    assert served.journal(session).read_bytes() == before
    assert (await prompt(http, session)).status_code == 200  # it is idle


async def test_together_they_fit_a_vendors_request(served: Daemon, http: httpx.AsyncClient, session: str) -> None:
    papers = [PDF + bytes([number]) * (8 * 1024 * 1024) + PDF_END for number in range(3)]
    blobs = [(await upload(http, session, paper, "application/pdf")).json()["blob"] for paper in papers]
    assert (await prompt(http, session, *({"blob": blob} for blob in blobs[:2]))).status_code == 200
    assert code_of(await prompt(http, session, *({"blob": blob} for blob in blobs))) == (422, "unprocessable")


# --- crash and race -----------------------------------------------------------------------------------------------


async def blocks(live: LiveSession, *data: bytes) -> tuple[Text | Image | Document, ...]:
    return tuple([await live.agent.attachments.of_data("image/png", base64.b64encode(one).decode()) for one in data])


async def idle(live: LiveSession) -> None:
    with anyio.fail_after(5):
        while live.is_busy:  # noqa: ASYNC110 - lets workers run
            await anyio.sleep(0.001)


@pytest.mark.parametrize("goes_on_by", ["resume", "prompt"])
async def test_a_crash_before_the_user_message_loses_no_attachment(tmp_path: Path, goes_on_by: str) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        attached = await blocks(live, PNG)
        live.prompt("look", attached)  # the process stops before the supervisor takes its first step
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Red."), say("Still red."))
        said: list[tuple[Block, ...]] = [(*attached, Text(text="look"))]
        if goes_on_by == "resume":
            live.resume_run()
            await idle(live)
        else:
            await home.run(live, "now")  # it waits for the end of the one before
            said.append((Text(text="now"),))
        assert [request.messages[-1].content for request in home.provider.requests] == said
        request = home.provider.requests[0]
        assert isinstance(attached[0], Image)
        assert request.blob(attached[0].blob) == PNG


async def test_a_busy_session_refuses_before_the_work_and_again_after_it(served: Daemon) -> None:
    (served.cwd / "slow.json").write_text(
        json.dumps({"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "true"}}]}]})
    )
    async with served.client() as http:
        session = (await http.post("/v1/sessions", json={"model": "scripted/slow.json"})).json()["id"]
        answers: list[int] = []

        async def one(number: int) -> None:
            data = picture(size=(2000 + number, 1900))
            answer = await http.post(
                f"/v1/sessions/{session}/prompt", json={"attachments": [inline(data, "image/png")]}
            )
            answers.append(answer.status_code)

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(one, number)
        assert sorted(answers) == [202, *[409] * 5]
        assert code_of(await prompt(http, session, {"path": "none.png"})) == (409, "session_busy")
        await http.post(f"/v1/sessions/{session}/cancel", json={})


async def test_the_state_changes_only_when_everything_is_there(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(holds=anyio.Event()))
        live.prompt("first")
        await home.provider.streaming.wait()
        assert [event.busy for event in home.events(live) if isinstance(event, Status)] == [True]
        with pytest.raises(Exception, match="going on"):
            live.check_prompt()
        live.cancel()
        await idle(live)
        live.check_prompt()


@pytest.mark.parametrize(
    ("paper", "part"),
    [(b"%PDF-1.7\n1 0 obj", "cut off"), (b"%PDF-1.7\n/Encrypt 5 0 R\n" + PDF_END, "encrypted")],
)
async def test_a_paper_that_no_vendor_opens_is_refused_before_it_is_in_the_way(
    http: httpx.AsyncClient, session: str, paper: bytes, part: str
) -> None:
    refused = await prompt(http, session, inline(paper, "application/pdf"))
    assert code_of(refused) == (422, "unprocessable")
    assert part in refused.json()["error"]
