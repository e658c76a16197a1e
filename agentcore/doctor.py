"""What a person should know about a session on disk: who has it, what is in it, and what is wrong with it.

Reads only, and takes nothing from a server that is running on it: what such a server is just writing is no damage.
Blocks. Promise: what would refuse the load is named, with its file and line, and with what to do; lines where the
files of the journal hold what they should.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.clock import SystemClock
from agentcore.errors import JournalDamaged
from agentcore.sessions.fold import History, fold
from agentcore.sessions.lease import Owner, is_held, owner_of
from agentcore.sessions.reading import is_json, place_of, read_lines
from agentcore.sessions.segments import FILE_NAME, FIRST, damage_of, fixed_sizes, path_of, segments_of
from agentcore.sessions.store import SessionStore
from agentcore.validator import repair, sentence

NAMED_LINES = 20
"""Damaged lines that are named one by one."""
_MEND = "Restore the file from a backup, or remove the line by hand; nothing of it is dropped silently."


@dataclass(frozen=True, slots=True)
class File:
    """One file of the journal."""

    name: str
    size_bytes: int
    """As it lies there, with what is ignored; 0 where it is missing."""
    ignored_bytes: int
    """Behind the end that a takeover fixed: what a stale owner still wrote."""


@dataclass(frozen=True, slots=True)
class Torn:
    """What was set aside when a last line was torn."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and what to do about it."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the lines say, as far as they can be read."""

    title: str | None
    cwd: str
    created: float
    """Unix time in seconds."""
    messages: int
    """In the model's transcript."""
    last_seq: int
    unfinished_prompt: str | None
    """Id of the prompt whose run has no `done`."""
    pending_requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    session: str
    directory: str
    generation: int
    owner: Owner | None
    """Who has it, or had it last."""
    is_held: bool
    """A process has it right now."""
    files: tuple[File, ...]
    lines: int
    torn: tuple[Torn, ...]
    facts: Facts | None
    """None when a line is damaged."""
    findings: tuple[Finding, ...]


def examine(sessions: Path, name: str) -> Report:
    """Look at a session below the folder `sessions`, by id, unique prefix or `latest`.

    Raises: NotFound, AmbiguousPrefix.
    """
    store = SessionStore(sessions, (Path("/"),), SystemClock())
    directory = store.directory_of(store.resolve(name))
    path, findings = directory / FILE_NAME, list[Finding]()
    try:
        generation = FIRST + len(fixed_sizes(directory))
        files = tuple(_files(directory))
    except JournalDamaged as error:
        findings.append(Finding("segments_damaged", str(error)))
        generation, files = FIRST, ()
    held = is_held(directory, generation)
    lines, facts = 0, None
    if files:
        findings += _file_findings(directory, files)
        lines, bad = _check_lines(path, is_held=held)
        findings += bad
        if not findings:
            facts = _read(path, findings)
    return Report(
        session=directory.name,
        directory=str(directory),
        generation=generation,
        owner=owner_of(directory, generation),
        is_held=held,
        files=files,
        lines=lines,
        torn=tuple(Torn(one.name, one.stat().st_size) for one in sorted(directory.glob("torn-*"))),
        facts=facts,
        findings=tuple(findings),
    )


def _files(directory: Path) -> Iterator[File]:
    fixed = fixed_sizes(directory)
    for generation, end in enumerate((*fixed, None), FIRST):
        path = path_of(directory, generation)
        size = path.stat().st_size if path.exists() else 0
        yield File(path.name, size, 0 if end is None else max(0, size - end))


def _file_findings(directory: Path, files: tuple[File, ...]) -> list[Finding]:
    ends = (*fixed_sizes(directory), 0)
    damages = [damage_of(directory / file.name, end) for file, end in zip(files, ends, strict=True)]
    findings = [Finding("file_damaged", damage) for damage in damages if damage is not None]
    if findings:
        return findings
    try:
        segments_of(directory / FILE_NAME)
    except JournalDamaged as error:
        return [Finding("segments_damaged", str(error))]
    return []


def _check_lines(path: Path, *, is_held: bool) -> tuple[int, list[Finding]]:
    """Count the lines, and find those that are no JSON and a last one that is torn."""
    findings, count, size = list[Finding](), 0, 0
    try:
        for count, line in enumerate(read_lines(path), 1):
            size += len(line) + 1
            if len(findings) < NAMED_LINES and not is_json(line):
                findings.append(_damaged(path, count))
    except (OSError, JournalDamaged):
        return count, findings  # told already
    last = path_of(path.parent, FIRST + len(fixed_sizes(path.parent)))
    rest = sum(fixed_sizes(path.parent)) + last.stat().st_size - size
    if rest > 0 and not is_held:
        told = f"The last line of {last.name} is torn ({rest} bytes). The next load sets it aside by itself."
        findings.append(Finding("torn_line", told))
    return count, findings


def _read(path: Path, findings: list[Finding]) -> Facts | None:
    try:
        history = fold(read_lines(path))
    except JournalDamaged as error:
        findings.append(Finding("journal_damaged", str(error)) if error.line is None else _damaged(path, error.line))
        return None
    findings += _transcript_findings(history)
    return Facts(
        title=history.settings.title,
        cwd=history.meta.cwd,
        created=history.meta.created,
        messages=len(history.transcript),
        last_seq=history.last_seq,
        unfinished_prompt=None if history.run is None else history.run.prompt.prompt_id,
        pending_requests=tuple(history.pending),
    )


def _transcript_findings(history: History) -> Iterator[Finding]:
    repaired = repair(history.transcript.messages, may_be_open=history.may_have_open_calls)
    found = history.findings + repaired.findings
    if found:
        told = sentence(found).replace("was mended", "is mended at the next load", 1)
        yield Finding("transcript_damaged", told)


def _damaged(path: Path, number: int) -> Finding:
    name, line = place_of(path, number)
    return Finding("line_damaged", f"Line {line} of {name} cannot be read. {_MEND}")
