"""`agentcore config`: what counts for a session in a folder, and which file, variable or default says so.

Needs no running server. Promise: no secret is shown, of environments and headers only the names.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import AgentError
from server.settings import CannotStart, existing_folder, folders
from server.terminal import sentence, table, visible


def main(cwd: Path, *, as_json: bool) -> int:
    """Tell the settings of a folder; return the exit code. Raises: CannotStart."""
    folder = existing_folder(cwd)
    try:
        told = _told(app_in(folder), folder)
    except (AgentError, OSError) as error:
        raise CannotStart(sentence(error)) from error
    lines = [json.dumps(told, indent=2, ensure_ascii=False)] if as_json else _for_people(told)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def app_in(folder: Path) -> App:
    """An application for looking, as a server in this folder would be. Raises: AgentError."""
    places = folders(None)
    return App(
        AppConfig(
            roots=(folder,),
            data_dir=places.data,
            state_dir=places.state,
            config_dir=places.config,
            allow_yolo=True,  # nothing runs here, so a mode in the settings is no reason to refuse
        )
    )


def _told(app: App, folder: Path) -> dict[str, Any]:
    effective = anyio.run(app.effective, folder)
    return {
        "cwd": str(folder),
        "values": [asdict(one) for one in effective.explain()],
        "notices": anyio.run(notices_in, app, folder),
    }


async def notices_in(app: App, folder: Path) -> list[str]:
    """What of the settings has no effect in a folder, and what waits for a person. Raises: Unprocessable."""
    effective, approvals = await app.effective(folder), await app.find_approvals([folder])
    waiting = [
        f"{one.title} of {one.source} waits for approval: see agentcore hooks." for one in approvals if one.waits
    ]
    return list(dict.fromkeys([*effective.notices, *app.notices, *waiting]))


def _for_people(told: dict[str, Any]) -> Iterator[str]:
    rows = [(one["key"], _shown(one["value"]), one["source"]) for one in told["values"]]
    yield from table([("SETTING", "VALUE", "FROM"), *rows])
    for notice in told["notices"]:
        yield f"note: {visible(notice)}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
