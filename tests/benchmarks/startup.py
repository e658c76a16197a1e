"""From nothing to the first healthy answer, and what was imported for it."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.benchmarks.table import Row, judge
from tests.daemon import Daemon

STARTS = 5
START_LIMIT_S = 0.5
MODULES_LIMIT = 900
BARE = "import asyncio, pydantic, starlette.applications, uvicorn, uvloop"
BUILT = "import sys, server.serve, server.daemon, server.asgi; print(len(sys.modules))"


def startup() -> list[Row]:
    bare = min(_bare_s() for _ in range(STARTS))
    ours = min(_start_s() for _ in range(STARTS))
    modules = int(subprocess.run([sys.executable, "-c", BUILT], check=True, capture_output=True, text=True).stdout)
    few = f"{BARE}; import sys; print(len(sys.modules))"
    base = int(subprocess.run([sys.executable, "-c", few], check=True, capture_output=True, text=True).stdout)
    return [
        Row(
            "start to first healthy answer",
            f"{ours * 1000:.0f} ms",
            f"{bare * 1000:.0f} ms bare imports",
            ours / bare,
            f"<= {START_LIMIT_S:g} s",
            judge(ours, START_LIMIT_S),
        ),
        Row(
            "modules imported at the start",
            str(modules),
            f"{base} of the frameworks",
            modules / base,
            f"<= {MODULES_LIMIT}, no SDK",
            judge(modules, MODULES_LIMIT),
        ),
    ]


def _bare_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    return time.perf_counter() - began


def _start_s() -> float:
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(Path(folder))
        began = time.perf_counter()
        try:
            daemon.start()
            httpx.get(f"{daemon.url}/v1/health", trust_env=False).raise_for_status()
            return time.perf_counter() - began
        finally:
            daemon.kill()
