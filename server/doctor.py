"""`agentcore doctor SESSION`: what a person should know about a session on disk, with or without a server.

Exit code 0 when it is sound, 1 when something was found, 2 when there is no such session.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from agentcore.doctor import Report, examine
from agentcore.errors import AgentError, NotFound
from server.settings import CannotStart, folders
from server.terminal import no_session, sentence

EXIT_SOUND, EXIT_FINDINGS = 0, 1


def main(session: str, *, as_json: bool, state_dir: Path | None) -> int:
    """Tell about a session; return the exit code. Raises: CannotStart when there is none of that name."""
    sessions = folders(state_dir).data / "sessions"
    try:
        report = examine(sessions, session)
    except NotFound as error:
        raise CannotStart(no_session(session, sessions)) from error
    except (AgentError, OSError) as error:
        raise CannotStart(sentence(error)) from error
    lines = [json.dumps(asdict(report), indent=2, ensure_ascii=False)] if as_json else _for_people(report)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_FINDINGS if report.findings else EXIT_SOUND


def _for_people(report: Report) -> Iterator[str]:
    facts = report.facts
    yield f"session {report.session}{f': {facts.title}' if facts is not None and facts.title else ''}"
    yield f"  directory  {report.directory}"
    if facts is not None:
        yield f"  folder     {facts.cwd}"
        yield f"  holds      {facts.messages} messages for the model; last number {facts.last_seq}"
    yield f"  owner      {_owner(report)}"
    for file in report.files:
        ignored = f", {file.ignored_bytes} of them from a stale owner and ignored" if file.ignored_bytes else ""
        yield f"  file       {file.name}: {file.size_bytes} bytes{ignored}"
    yield f"  lines      {report.lines}"
    for torn in report.torn:
        yield f"  set aside  {torn.name}: {torn.size_bytes} bytes of a torn line"
    if facts is not None and facts.unfinished_prompt is not None:
        yield f"  unfinished {facts.unfinished_prompt}: load the session, then resume it"
    if facts is not None and facts.pending_requests:
        yield f"  waits for  {', '.join(facts.pending_requests)}"
    for finding in report.findings:
        yield f"  FOUND      {finding.text}"
    yield f"{len(report.findings)} found" if report.findings else "sound"


def _owner(report: Report) -> str:
    owner = report.owner
    if owner is None:
        return "a process of an older version" if report.is_held else "nobody"
    since = datetime.fromtimestamp(owner.since, UTC)
    has = "has it" if report.is_held else "had it last"
    return f"process {owner.pid} {has}, since {since:%Y-%m-%d %H:%M:%S} UTC (generation {report.generation})"
