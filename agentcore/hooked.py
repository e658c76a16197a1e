"""The hooks of one session, put together with what they need: its history, its journal, its folder, its rules.

Nothing that is made here knows the agent or the gate for good: a closed session is freed without the collector.
"""

import hashlib
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread
from pydantic import JsonValue, ValidationError

from agentcore.beside import ModelBeside
from agentcore.caps import safe_text
from agentcore.errors import ProviderError, Unprocessable
from agentcore.events import Mode, Notice, SessionUpdated
from agentcore.folders import make_private
from agentcore.hooks.exports import Exports
from agentcore.hooks.handlers import Handler
from agentcore.hooks.payloads import Now
from agentcore.hooks.room import DEFAULT_TIMEOUT_S, AskModel, CallMcp, HookRoom, Later, Scene
from agentcore.messages import Text, ToolCall
from agentcore.nearby import HooksAndSkills
from agentcore.origin import Origin
from agentcore.permissions.commands import Match
from agentcore.permissions.facts import facts_about
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.matching import Subject, strongest
from agentcore.permissions.rules import BadRule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Answer
from agentcore.ports.tools import Outcome, Tool, ToolError, ToolRoom
from agentcore.processes import Around, unconfined
from agentcore.sessions.fold import updated
from agentcore.sessions.records import Note
from agentcore.sessions.segments import FILE_NAME, segments_of
from agentcore.sessions.store import OpenSession
from agentcore.within import one_line

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
    now: Callable[[], float]
    """Unix time in seconds."""
    call_mcp: CallMcp


@dataclass(frozen=True, slots=True)
class Inside:
    """A subagent in which hooks run."""

    agent_id: str
    """Its label."""
    agent_type: str
    log: EventLog
    mode: Callable[[], Mode]
    turn: Callable[[], int]


def hooks_of(
    session: OpenSession,
    handlers: Sequence[Handler],
    ways: Ways,
    *,
    tools: Mapping[str, Tool],
    workspace: Workspace,
    default_model: str,
    exports: Exports,
    ask_model: AskModel | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    check: Callable[[str], Awaitable[str]] | None = None,
    within: Inside | None = None,
    around: Around = unconfined,
) -> HooksAndSkills:
    """The hooks of a session, those of its skills to come; `timeout_s` is for those that set none, `check` for what
    they say to the model. `within` one of its subagents, or in its main agent; `around` is what commands are confined
    by. Long since it puts together, in one place, all that hooks may ask of a session."""
    history, directory = session.history, session.directory
    log: EventLog = session.log if within is None else within.log
    transcript = segments_of(directory / FILE_NAME)[-1].path

    def now() -> Now:
        run, settings = history.run, history.settings
        return Now(
            session=session.id,
            transcript_path=str(transcript),
            cwd=workspace.cwd,
            mode=settings.mode if within is None else within.mode(),
            prompt_id=None if run is None else run.prompt.prompt_id,
            effort=settings.effort,
            agent_id=None if within is None else within.agent_id,
            agent_type=None if within is None else within.agent_type,
            model=settings.model or default_model,
            tasks=history.tasks.running,
        )

    def tell(notice: Notice) -> None:
        turns = history.ledger.turns if within is None else within.turn()
        log.emit(notice.model_copy(update={"turn": turns or None}))

    def tell_later(text: str) -> None:
        session.log.record(Note(text=text, ts=round(ways.now(), 3)))
        history.notes.append(text)

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
        ask_model=ask_model,
        call_mcp=ways.call_mcp,
        tell_later=tell_later,
        exports=exports,
        around=around,
        check=check,
    )
    return HooksAndSkills(HookRoom(handlers, scene))


def model_asker(beside: ModelBeside, why_not_model: Callable[[str], str | None]) -> AskModel:
    """What asks the session's own models for a hook."""

    async def ask(system: str, question: str, model: str | None) -> str:
        """Raises: ToolError."""
        if model is not None and (why := why_not_model(model)) is not None:
            raise ToolError(f"the model {one_line(model)} cannot be asked: {why}")
        try:
            finished = await beside.answer(system, question, model)
        except ProviderError as error:
            raise ToolError(f"the model failed ({error.kind})") from error
        return safe_text("".join(block.text for block in finished.content if isinstance(block, Text)))

    return ask


def mcp_caller(tools: Mapping[str, Tool]) -> CallMcp:
    """What calls a tool of an MCP server for a hook: one that the session has."""

    async def call(server: str, tool: str, input: Mapping[str, JsonValue]) -> str:
        """Raises: ToolError."""
        found = tools.get(f"mcp__{server}__{tool}")
        if found is None:
            raise ToolError(f"there is no tool {one_line(tool)} of a connected MCP server {one_line(server)}")
        try:
            given = found.spec.input.model_validate(dict(input))
        except ValidationError as error:
            raise ToolError(f"its input does not fit the tool {one_line(tool)}") from error
        outcome = await found.run(given, ToolRoom(call_id="", say=lambda text: None))
        if not isinstance(outcome, Outcome):
            raise ToolError(f"the answer of {one_line(tool)} comes later")
        if outcome.is_error:
            raise ToolError(one_line(outcome.output[:500]))
        return outcome.output

    return call


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


def applier(
    session: OpenSession, gate: SessionGate, write: Callable[[str, bool], Origin], *, allows_yolo: bool
) -> Callable[[str, Answer], Awaitable[None]]:
    """What puts in force the rules and the mode that come with a hook's yes. `write` puts an allow rule into the
    user's private file for the project, or into the one for all (True); it blocks and raises OSError, Unprocessable."""
    held = weakref.ref(gate)
    log, history = session.log, session.history

    async def apply(call_id: str, answer: Answer) -> None:
        for text, scope in answer.rules:
            origin: Origin | None = None
            if scope != "session":
                try:
                    origin = await to_thread.run_sync(write, text, scope == "user")
                except (OSError, Unprocessable):
                    told = "A rule of a hook could not be written to the settings; it holds for this session only."
                    log.emit(Notice(level="warning", code="rule_not_persisted", text=told))
            there = held()
            if there is None:
                return
            there.grant(call_id, parse_rule(text), settled=origin is not None)
            if origin is not None:
                there.standing.adopt(parse_rule(text, origin))
        if answer.mode == "yolo" and not allows_yolo:
            told = "A hook asks for mode yolo, which is off on this server: the mode stays."
            log.emit(Notice(level="warning", code="mode_not_allowed", text=told))
        elif answer.mode is not None:
            change = SessionUpdated(mode=answer.mode, by="hook")
            log.emit(change)
            history.settings = updated(history.settings, change)

    return apply


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
