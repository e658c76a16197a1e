"""`agentcore selfcheck` with quick checks in the place of its own: `python -m tests.clients.quick_checks NAME …`."""

import sys
from pathlib import Path

import anyio

from agentcore_selfcheck import main
from agentcore_selfcheck.server import Server
from agentcore_selfcheck.verdicts import Broken, Check, Missing, Say


async def held(folder: Path, say: Say) -> str:
    say("looking")
    return "all was [well]"


async def broken(folder: Path, say: Say) -> str:
    raise Broken("it does not hold")


async def missing(folder: Path, say: Say) -> str:
    raise Missing("there is none [here]")


async def key(folder: Path, say: Say) -> str:
    say("looking into it")
    return str({}["id"])


async def file(folder: Path, say: Say) -> str:
    return (folder / "none").read_text()


async def pipe(folder: Path, say: Say) -> str:
    raise anyio.BrokenResourceError


async def group(folder: Path, say: Say) -> str:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(key, folder, say)
    return ""


async def serving(folder: Path, say: Say) -> str:
    """Starts a server, says which process it is, and never ends."""
    async with Server.running(folder, {"turns": [{"text": "Hello."}]}) as server:
        print(server.pid, folder, flush=True)
        await anyio.sleep_forever()
    return ""


async def waiting(folder: Path, say: Say) -> str:
    say("waiting for ever")
    await anyio.sleep_forever()
    return ""


async def watched(folder: Path, say: Say) -> str:
    """Holds when somebody who saw it puts a file beside its folder."""
    say("look at this")
    while not (folder.parent / "seen").exists():  # noqa: ASYNC110 - it is another process that tells
        await anyio.sleep(0.01)
    return "it was seen"


CHECKS = (held, broken, missing, key, file, pipe, group, serving, waiting, watched)
KNOWN = {check.__name__: check for check in CHECKS}

if __name__ == "__main__":
    main.CHECKS = tuple(Check(f"promise {name}", KNOWN[name]) for name in sys.argv[1:])
    sys.exit(main.main())
