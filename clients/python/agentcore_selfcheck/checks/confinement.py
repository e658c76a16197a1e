"""Commands stay where they belong, even where nobody is asked: they try to get out, and have left nothing there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import asked, is_event, new_session, stream, until
from agentcore_selfcheck.verdicts import Missing, Say, demand

_SECRET = "this-must-not-be-seen"  # noqa: S105 - planted for commands to look for


async def confinement(folder: Path, say: Say) -> str:
    with _listener() as (port, visits):
        attempts = _attempts(folder, port)
        async with Server.running(folder, _story(attempts), "--allow-yolo") as server, server.client() as http:
            (server.work / ".git" / "hooks").mkdir(parents=True)
            (folder / "home" / ".ssh").mkdir()
            (folder / "home" / ".ssh" / "id").write_text(_SECRET)
            session = await new_session(http, mode="yolo")
            sandbox = (await asked(http, "GET", "/v1/info", 200))["sandbox"]
            if not sandbox["available"]:
                raise Missing(f"commands are not confined on this machine: {sandbox['why_not']}")
            for name, script in attempts.items():
                (server.work / f"{name}.sh").write_text(script.replace("SERVER", str(server.pid)) + "echo tried\n")
            said = {}
            for name in attempts:
                say(name)
                said[name] = await _output(http, session, name)
            _judge(folder, said, visits())
            await asked(http, "GET", "/v1/health", 200)  # it was not killed
            return f"{len(attempts)} attempts by {sandbox['kind']}-confined commands, none of which got out"


def _attempts(folder: Path, port: int) -> dict[str, str]:
    return {
        "inside": "echo fine > inside.txt; cat inside.txt\n",
        "write": f"echo x > {folder}/out.txt; mkdir {folder}/out; echo x > $HOME/out.txt\n",
        "key": f"cat {folder}/home/.ssh/id; cp -r {folder}/home/.ssh copy; cat copy/id\n",
        "token": f"cat {folder}/state/servers/*.json; ls {folder}/state/data\n",
        "hook": "echo 'touch ../out.txt' > .git/hooks/pre-commit; ls .git/hooks\n",
        "link": f"ln -s {folder} way; echo x > way/out.txt\n",
        "network": f"echo x > /dev/tcp/127.0.0.1/{port}\n",
        "kill": "kill -9 SERVER\n",
    }


def _story(attempts: dict[str, str]) -> dict[str, Any]:
    def turns(name: str) -> list[dict[str, Any]]:
        call = {"name": "bash", "input": {"command": f"bash {name}.sh"}}
        return [{"tool_calls": [call]}, {"text": "Tried."}]

    return {"scenes": [{"match": name, "turns": turns(name)} for name in attempts]}


async def _output(http: Any, session: str, name: str) -> str:
    async with stream(http, session) as frames:
        await until(frames, is_event("snapshot"), "the snapshot")
        await asked(http, "POST", f"/v1/sessions/{session}/prompt", 202, text=name)
        seen = await until(frames, is_event("done"), f"the end of {name}")
    return next(str(frame.value["output"]) for frame in seen if frame.event == "tool_end")


def _judge(folder: Path, said: dict[str, str], visits: int) -> None:
    for name, output in said.items():
        demand("tried" in output, f"the attempt {name} did not come to its end")
    demand("fine" in said["inside"], "a command could not even write in its own folder")
    for path in (folder / "out.txt", folder / "out", folder / "home" / "out.txt"):
        demand(not path.exists(), f"a command wrote {path.name} outside of its folder")
    demand(_SECRET not in said["key"], "a command read a key")
    demand("token" not in said["token"], "a command read the server's token")
    hook = folder / "work" / ".git" / "hooks" / "pre-commit"
    demand(not hook.exists(), "a command planted a git hook")
    demand(visits == 0, "a command reached the network")


@contextmanager
def _listener() -> Iterator[tuple[int, Any]]:
    """A port of this machine, and how many came to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def visits() -> int:
            came = 0
            try:
                while True:
                    server.accept()[0].close()
                    came += 1
            except BlockingIOError:
                return came

        yield server.getsockname()[1], visits
