"""The hooks of one session, put together with what they need: its history, its journal, its folder, its rules.

Nothing that is made here knows the agent or the gate for good: a closed session is freed without the collector.
"""

import hashlib
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from agentcore.errors import Unprocessable
from agentcore.events import Notice
from agentcore.folders import make_private
from agentcore.hooks.handlers import Handler
from agentcore.hooks.payloads import Now
from agentcore.hooks.room import DEFAULT_TIMEOUT_S, HookRoom, Later, Scene
from agentcore.hooks.session import SessionHooks
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions.commands import Match
from agentcore.permissions.facts import facts_about
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.matching import Subject, strongest
from agentcore.permissions.rules import BadRule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports import NO_HOOKS, Hooks, Tool
from agentcore.sessions.segments import FILE_NAME, segments_of
from agentcore.sessions.store import OpenSession

LONG_TEXTS = "hook-texts"
"""Folder beside the journal for what is too long for the model; its tools may read it."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What is the same for the hooks of all sessions."""

    environ: Mapping[str, str]
    """Without the keys of providers."""
    secrets: Mapping[str, str]
    """With them: headers may name them."""
    later: Later
    """Starts in the process's task group what nobody waits for."""
    is_approved: Callable[[Origin, str], bool]


def hooks_of(
    session: OpenSession,
    handlers: Sequence[Handler],
    ways: Ways,
    *,
    tools: Mapping[str, Tool],
    workspace: Workspace,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    check: Callable[[str], Awaitable[str]] | None = None,
) -> Hooks:
    """The hooks of a session; `timeout_s` is for those that set none, `check` for what they say to the model."""
    if not handlers:
        return NO_HOOKS
    history, log, directory = session.history, session.log, session.directory
    transcript = segments_of(directory / FILE_NAME)[-1].path

    def now() -> Now:
        run, settings = history.run, history.settings
        return Now(
            session=session.id,
            transcript_path=str(transcript),
            cwd=Path(history.meta.cwd),
            mode=settings.mode,
            prompt_id=None if run is None else run.prompt.prompt_id,
            effort=settings.effort,
        )

    def tell(notice: Notice) -> None:
        log.emit(notice.model_copy(update={"turn": history.ledger.turns or None}))

    scene = Scene(
        now=now,
        project=Path(history.meta.cwd),
        environ=ways.environ,
        secrets=ways.secrets,
        tell=tell,
        later=ways.later,
        is_approved=ways.is_approved,
        is_about=lambda rule, call: is_about(rule, call, tools, workspace),
        keep=lambda text: keep(directory, text),
        default_timeout_s=timeout_s,
        check=check,
    )
    return SessionHooks(HookRoom(handlers, scene))


def check_by(gate: SessionGate, tools: Mapping[str, Tool]) -> Callable[[ToolCall, Mapping[str, JsonValue]], None]:
    """What checks the input that a hook puts in the place of one that a person was to be asked about."""
    held = weakref.ref(gate)

    def check(call: ToolCall, input: Mapping[str, JsonValue]) -> None:
        """Raises: Unprocessable."""
        there, tool = held(), tools.get(call.name)
        if there is None or tool is None:
            raise Unprocessable("There is nothing left to check it with.")
        there.check_replacement(call, input, tool.spec)

    return check


def is_about(text: str, call: ToolCall, tools: Mapping[str, Tool], workspace: Workspace) -> bool | None:
    """Whether any part of a call is what a permission rule is about; None for a rule that cannot be read. Blocking."""
    try:
        rule = parse_rule(text)
    except BadRule:
        return None
    tool = tools.get(call.name)
    if tool is None:
        return None
    met, _ = strongest([rule], Subject(call, tool.spec, facts_about(call, tool.spec, workspace)))
    return met is not Match.NO


def keep(directory: Path, text: str) -> str | None:
    """Keep a text in a session's folder and return its path; None where the disk does not take it. Blocking."""
    folder = directory / LONG_TEXTS
    file = folder / f"{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}.txt"
    try:
        make_private(folder)
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
    except OSError:
        return None
    return str(file)
