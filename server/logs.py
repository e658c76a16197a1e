"""What goes to stderr: log lines, and sentences for people. With AGENTCORE_LOG=json each is one JSON object a line.

`ts` (Unix seconds), `level`, `logger` and `message`; `session` and `run` where the line comes from the work of one,
and `traceback` behind a failure. What was said by people and models, and requests with their tickets, stand in none.
"""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Literal

from agentcore.log_ids import log_ids
from server.settings import CannotStart

Style = Literal["text", "json"]
VARIABLE = "AGENTCORE_LOG"

people = logging.getLogger("server.people")
"""Sentences that are shown whatever the level of the log is."""


def log_style(environ: Mapping[str, str]) -> Style:
    """Raises: CannotStart."""
    match environ.get(VARIABLE, "").strip().lower():
        case "" | "text":
            return "text"
        case "json":
            return "json"
        case _:
            raise CannotStart(f"{VARIABLE} is neither text nor json; set it to one of them, or leave it out.")


def tell_people(style: Style, prefix: str = "") -> None:
    """Bring sentences for people to stderr, as text with `prefix` before each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else logging.Formatter(f"{prefix}%(message)s"))
    people.handlers[:] = [handler]
    people.propagate = False
    people.setLevel(logging.INFO)


def write_log(style: Style, *, debug: bool = False, prefix: str | None = None) -> None:
    """Bring log lines to stderr; with a prefix as sentences."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines() if prefix is None else logging.Formatter(f"{prefix}%(message)s")
    handler.setFormatter(JsonLines() if style == "json" else text)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    if debug:  # our own rooms only: others would write request lines, and those hold tickets
        for room in ("agentcore", "server"):
            logging.getLogger(room).setLevel(logging.DEBUG)


class TextLines(logging.Formatter):
    """`WARNING agentcore.run [20260101-120000-abcdef]: what happened`"""

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = log_ids()
        session = "" if ids is None else f" [{ids.session}]"
        return f"{record.levelname} {record.name}{session}: {record.message}"


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": " ".join(record.getMessage().split()),
        }
        ids = log_ids()
        if ids is not None:
            line["session"] = ids.session
            if ids.run is not None:
                line["run"] = ids.run
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
