"""A server of the check's own, in a process of its own, on folders of its own, with a script in place of a model."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
import httpx
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from agentcore_selfcheck.verdicts import Broken

START_S = 30.0
_INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""Of this environment; no key of a provider, and no home, so that nobody's settings count."""


@dataclass
class Server:
    """`restart` after `kill` is a new process on the same folders."""

    folder: Path
    story: Mapping[str, Any]
    """A script of the provider `scripted`."""
    arguments: Sequence[str] = ()
    url: str = ""
    token: str = field(default="", repr=False)
    pid: int = 0
    _process: Process | None = None

    @property
    def work(self) -> Path:
        """Where its sessions work."""
        return self.folder / "work"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path, story: Mapping[str, Any], *arguments: str) -> AsyncIterator[Self]:
        """Raises: Broken when it does not start."""
        server = cls(folder, story, arguments)
        for each in (server.work, server.state, folder / "home"):
            each.mkdir(parents=True)
        (folder / "story.json").write_text(json.dumps(story))
        try:
            await server.start()
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.kill()

    async def start(self) -> None:
        home = self.folder / "home"
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        python = [sys.executable, "-P", "-m"]
        command = [*python, "server.cli", "serve", "--port", "0", "--state-dir", str(self.state)]
        with (self.folder / "stderr").open("ab") as stderr:
            process = await anyio.open_process(
                [
                    *(*python, "agentcore_selfcheck.leash"),  # it ends with us, whatever ends us
                    *(*command, "--model", f"scripted/{self.folder / 'story.json'}", *self.arguments),
                ],
                cwd=self.work,
                env=inherited | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")},
                stderr=stderr,
                start_new_session=True,
            )
        self._process = process
        assert process.stdout is not None, "it is a pipe"
        try:
            with anyio.fail_after(START_S):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1_000_000)
        except (TimeoutError, anyio.IncompleteRead, anyio.EndOfStream):
            raise Broken(f"the server did not start: {self._last_words()}") from None
        told = json.loads(line)
        self.url, self.token, self.pid = told["url"], told["token"], told["pid"]

    def _last_words(self) -> str:
        lines = (self.folder / "stderr").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    async def kill(self) -> None:
        """SIGKILL: it can do nothing about it."""
        if self._process is not None:
            await self._process.aclose()  # lets go of the leash
            self._process = None

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=30, trust_env=False
        )
