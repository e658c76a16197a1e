"""`agentcore models`: what there is to choose from, what is ready, and what the rest lacks.

Needs no running server and asks no vendor: prices and windows come from the catalogue, and only the model servers on
this machine are asked what they have.
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
from server.settings import CannotStart, folders
from server.terminal import sentence

Row = tuple[str, str, str, str]


def main(*, as_json: bool) -> int:
    """Tell about providers and models; return the exit code. Raises: CannotStart."""
    try:
        told = _told(_app())
    except (AgentError, OSError) as error:
        raise CannotStart(sentence(error)) from error
    lines = [json.dumps(told, indent=2, ensure_ascii=False)] if as_json else _for_people(told)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _app() -> App:
    places = folders(None)
    app = App(
        AppConfig(
            roots=(Path.cwd(),),
            data_dir=places.data,
            state_dir=places.state,
            config_dir=places.config,
            allow_yolo=True,  # nothing runs here, so a mode in the settings is no reason to refuse
        )
    )
    anyio.run(app.look_nearby)
    return app


def _told(app: App) -> dict[str, Any]:
    return {
        "default": app.default_model,
        "fallbacks": list(app.config.fallbacks),
        "aliases": dict(app.providers.aliases),
        "providers": [
            {
                "name": one.name,
                "ready": one.ready,
                "why_not": one.why_not,
                "models": [asdict(model) for model in app.providers.models(one.name)],
            }
            for one in app.providers.describe()
        ],
        "notices": list(app.notices),
    }


def _for_people(told: dict[str, Any]) -> Iterator[str]:
    for provider in told["providers"]:
        yield f"{provider['name']}: {provider['why_not'] or _ready(provider)}"
    rows = [_row(provider["name"], model) for provider in told["providers"] for model in provider["models"]]
    yield ""
    yield from _table([("MODEL", "WINDOW", "$/M IN", "$/M OUT"), *rows])
    if any("?" in row for row in rows):
        yield "?: not known before the model is asked; context_length in a provider's section tells its window"
    yield ""
    yield f"default: {told['default']}"
    if told["fallbacks"]:
        yield f"fallbacks: {', '.join(told['fallbacks'])}"
    for short, model in told["aliases"].items():
        yield f"alias: {short} = {model}"
    for notice in told["notices"]:
        yield f"note: {notice}"


def _ready(provider: dict[str, Any]) -> str:
    return "ready" if provider["models"] else f"ready; name a model as {provider['name']}/<model>"


def _row(provider: str, model: dict[str, Any]) -> Row:
    window, read, written = model["context_window"], model["input_usd"], model["output_usd"]
    return (
        f"{provider}/{model['name']}",
        "?" if window is None else f"{window:,}",
        "?" if read is None else f"{read:.2f}",
        "?" if written is None else f"{written:.2f}",
    )


def _table(rows: list[Row]) -> Iterator[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, *numbers in rows:
        right = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *right))
