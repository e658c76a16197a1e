"""Where a provider is and what lets us in: keys as they are or printed by a command, which may do anything."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.providers import endpoint
from agentcore.providers.endpoint import FAILURE_KEPT_S, KEY_KEPT_S, Endpoint, Key

pytestmark = pytest.mark.anyio

SOURCE = "api_key_command of lab"


class Time:
    """A clock that goes when it is told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def counting(folder: Path) -> str:
    """A command that prints how often it was run."""
    return f"echo x >> '{folder}/runs'; echo key-$(wc -l < '{folder}/runs' | tr -d ' ')"


async def refusal(key: Key) -> str:
    with anyio.fail_after(10), pytest.raises(ProviderError) as caught:
        await key.read()
    assert caught.value.kind == "auth"
    return str(caught.value)


# --- a key as it is -----------------------------------------------------------------------------------------------


async def test_a_given_key_is_read_without_the_space_around_it() -> None:
    key = Key("  sk-abc\n", source="LAB_KEY")
    assert (key.why_not(), await key.read(), key.secrets) == (None, "sk-abc", ("sk-abc",))
    key.forget()
    assert await key.read() == "sk-abc"


async def test_where_no_key_is_needed_it_is_empty() -> None:
    key = Key(is_needed=False)
    assert (key.why_not(), await key.read(), key.secrets) == (None, "", ())


@pytest.mark.parametrize("value", ["", "  ", "sk-ключ", "sk-\x07", "sk-a\nb"])
async def test_a_key_that_cannot_be_one_is_told_before_anything_is_sent(value: str) -> None:
    key = Key(value, source="LAB_KEY")
    assert "LAB_KEY" in (key.why_not() or "")
    assert "LAB_KEY" in await refusal(key)


# --- a key that a command prints ----------------------------------------------------------------------------------


async def test_what_a_command_prints_is_kept_for_five_minutes(tmp_path: Path) -> None:
    clock = Time()
    key = Key(source=SOURCE, command=counting(tmp_path), clock=clock)
    assert (key.why_not(), key.secrets) == (None, ())
    assert [await key.read(), await key.read()] == ["key-1", "key-1"]
    clock.now += KEY_KEPT_S - 1
    assert await key.read() == "key-1"
    clock.now += 1
    assert await key.read() == "key-2"
    assert key.secrets == ("key-2",)


async def test_a_refused_key_is_asked_for_again_and_stays_a_secret_until_then(tmp_path: Path) -> None:
    key = Key(source=SOURCE, command=counting(tmp_path), clock=Time())
    await key.read()
    key.forget()
    assert key.secrets == ("key-1",)
    assert [await key.read(), await key.read()] == ["key-2", "key-2"]


async def test_concurrent_reads_run_the_command_once(tmp_path: Path) -> None:
    key = Key(source=SOURCE, command=f"sleep 0.2; {counting(tmp_path)}")
    found: list[str] = []

    async def read() -> None:
        found.append(await key.read())

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(read)
    assert found == ["key-1"] * 5


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("printf sk-abc", "sk-abc"),
        ("echo; echo '  sk-abc  '; echo", "sk-abc"),
        ("echo sk-abc; echo oops >&2", "sk-abc"),
        ("cat; echo sk-abc", "sk-abc"),
        ("printf %01000d 7", "0" * 999 + "7"),
        ("printf sk-; sleep 0.2; printf abc", "sk-abc"),
        ("echo sk-abc; exec >&-; sleep 0.2", "sk-abc"),
    ],
)
async def test_a_command_may_print_as_it_likes(command: str, key: str) -> None:
    with anyio.fail_after(10):
        assert await Key(source=SOURCE, command=command).read() == key


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 3", "exit status 3"),
        ("echo sk-abc; exit 3", "exit status 3"),
        ("true", "exit status 0"),
        ("echo", "exit status 0"),
        ("no-such-command-anywhere", "exit status 127"),
        ("kill -9 $$", "exit status -9"),
        ("echo one; echo two", "the key alone"),
        ("cat /dev/zero", "the key alone"),
        ("yes", "the key alone"),
        ("printf 'sk-\\377abc'", "no key has"),
    ],
)
async def test_a_command_that_gives_no_key_is_named_and_what_it_printed_is_not(command: str, told: str) -> None:
    sentence = await refusal(Key(source=SOURCE, command=command))
    assert (SOURCE in sentence, told in sentence, "sk-" in sentence, command in sentence) == (True, True, False, False)


async def test_a_command_that_failed_is_run_again(tmp_path: Path) -> None:
    clock = Time()
    key = Key(source=SOURCE, command=f"cat '{tmp_path}/key'", clock=clock)
    await refusal(key)
    (tmp_path / "key").write_text("sk-\x07")
    clock.now += FAILURE_KEPT_S
    await refusal(key)
    assert (key.why_not(), key.secrets) == (None, ())
    (tmp_path / "key").write_text("sk-abc")
    clock.now += FAILURE_KEPT_S
    assert await key.read() == "sk-abc"


async def test_who_waited_for_a_command_that_failed_shares_its_failure(tmp_path: Path) -> None:
    clock, said = Time(), list[str]()
    key = Key(source=SOURCE, command=f"echo x >> '{tmp_path}/runs'; sleep 0.2; exit 3", clock=clock)

    async def read() -> None:
        said.append(await refusal(key))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(read)
    key.forget()  # as after every refusal
    said.append(await refusal(key))
    assert len(set(said)) == 1
    assert (tmp_path / "runs").read_text() == "x\n"
    clock.now += FAILURE_KEPT_S
    await refusal(key)
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_command_that_cannot_be_ended_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def killpg(group: int, number: int) -> None:
        ended.append(group)
        raise PermissionError

    monkeypatch.setattr(endpoint, "KEY_COMMAND_LIMIT_S", 0.2)
    monkeypatch.setattr(endpoint, "_KILLED_S", 1.5)  # it ends by itself meanwhile, so that nothing is left of the test
    monkeypatch.setattr(os, "killpg", killpg)
    assert "did not end" in await refusal(Key(source=SOURCE, command="sleep 1"))
    assert len(ended) == 1


def started(folder: Path) -> str:
    """A command that leaves a child behind and says who it is."""
    return f"sleep 60 & echo $! > '{folder}/child'"


def child(folder: Path) -> int:
    return int((folder / "child").read_text())


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110 - a process that ends tells nobody but its parent
            await anyio.sleep(0.01)


async def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "KEY_COMMAND_LIMIT_S", 0.3)
    sentence = await refusal(Key(source=SOURCE, command=f"{started(tmp_path)}; echo sk-abc; wait"))
    assert sentence == f"{SOURCE} did not end within 0 s."
    await until(lambda: not is_running(child(tmp_path)))


async def test_a_shell_that_closed_its_output_and_stays_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "KEY_COMMAND_LIMIT_S", 0.3)
    assert "did not end" in await refusal(Key(source=SOURCE, command="echo sk-abc; exec >&-; sleep 60"))


async def test_a_child_that_holds_the_pipe_holds_up_nobody(tmp_path: Path) -> None:
    with anyio.fail_after(5):
        key = await Key(source=SOURCE, command=f"{started(tmp_path)}; echo sk-abc").read()
    assert key == "sk-abc"
    assert is_running(child(tmp_path))  # an agent, say, that was meant to stay
    os.kill(child(tmp_path), signal.SIGKILL)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="the system has no setsid to leave a session with")
async def test_a_child_in_a_session_of_its_own_cannot_hold_up_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "KEY_COMMAND_LIMIT_S", 0.3)
    with anyio.fail_after(5):
        assert "did not end" in await refusal(Key(source=SOURCE, command=f"setsid {started(tmp_path)}; sleep 60"))
    with suppress(ProcessLookupError):
        os.kill(child(tmp_path), signal.SIGKILL)


async def test_cancelling_does_not_wait_for_the_command() -> None:
    key = Key(source=SOURCE, command="sleep 2; echo sk-abc")
    began = time.monotonic()
    with anyio.move_on_after(0.1) as scope:
        await key.read()
    assert (scope.cancelled_caught, time.monotonic() - began < 1.5) == (True, True)


# --- endpoints ----------------------------------------------------------------------------------------------------


def at(url: str, key: Key | None = None) -> Endpoint:
    return Endpoint(name="lab", title="Lab", base_url=url, key=key or Key(is_needed=False), url_source="LAB_URL")


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:11434", True),
        ("http://LOCALHOST", True),
        ("http://localhost.:80/v1", True),
        ("http://llm.localhost/v1", True),
        ("http://127.0.0.1:8080", True),
        ("https://127.0.0.2", True),
        ("http://[::1]:8080/v1", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://0.0.0.0:11434", True),
        ("http://[::]:11434", True),
        ("http://user:word@127.0.0.1", True),
        ("http://192.168.1.7:11434", False),
        ("http://10.0.0.1", False),
        ("http://172.17.0.1", False),
        ("http://[fe80::1]", False),
        ("http://[::ffff:10.0.0.1]", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://127.0.0.1@example.com", False),
        ("http://notlocalhost", False),
        ("https://api.anthropic.com", False),
        ("http://[", False),
        ("localhost:8080", False),
        ("", False),
    ],
)
def test_only_this_machine_is_local(url: str, is_local: bool) -> None:
    assert at(url).is_local is is_local


@pytest.mark.parametrize(
    "url", ["", "lab", "localhost:8080", "ftp://lab", "http://", "http://[", "//lab", "http:///v1"]
)
def test_an_address_that_is_none_is_told_with_the_place_where_it_stands(url: str) -> None:
    assert at(url).why_not() == "Lab has no usable address: give LAB_URL as http://… or https://…"


def test_an_endpoint_is_ready_when_nothing_is_missing() -> None:
    assert at("https://lab").why_not() is None
    assert at("https://lab", Key("sk-abc")).why_not() is None
    assert at("https://lab", Key(source="LAB_KEY")).why_not() == "Lab is not ready: it needs a key: set LAB_KEY."
    assert at("https://lab", Key(command="false", source="x")).why_not() is None  # cannot be told without running it


async def test_no_key_is_in_what_is_printed() -> None:
    printed = Key(command="echo sk-printed", source=SOURCE)
    assert await printed.read() == "sk-printed"
    for key in (Key("sk-secret", source="LAB_KEY"), printed):
        for text in (repr(key), str(key), repr(at("https://lab", key)), f"{at('https://lab', key)}"):
            assert ("sk-secret" in text, "sk-printed" in text, "echo" in text) == (False, False, False)
