"""One subagent put together: the parts of a loop over a transcript, a ledger and a log of its own. No logic of its own.

It is gone with its run: what stays of it is in the journal.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from agentcore.budget import Limits, SubagentLedger
from agentcore.budgets import spending_of
from agentcore.call import Calls
from agentcore.candidates import Candidate, CoolDowns
from agentcore.compaction.compactor import ContextCompactor, Plan, Scene
from agentcore.deferrals import Deferrals
from agentcore.estimate import tokens_of_fixed
from agentcore.events import Mode, Notice
from agentcore.guard.guard import Guard
from agentcore.hooks.asker import HookedAsker
from agentcore.inbox import Inbox
from agentcore.instructions import Said, subagent_prompt
from agentcore.loop import Loop
from agentcore.mcp.asking import ASK_USER
from agentcore.messages import Message, ToolCall
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.clock import Clock
from agentcore.ports.hooks import Hooks
from agentcore.ports.log import EventLog
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.ports.permission import Asker
from agentcore.ports.servers import Lent as LentServers
from agentcore.ports.tools import Tool, ToolError
from agentcore.preloading import Preloaded
from agentcore.retry import Patience
from agentcore.sessions.segments import pattern_of
from agentcore.sessions.store import OpenSession
from agentcore.subagents.hooks import SubagentHooks
from agentcore.subagents.kinds import AgentKind
from agentcore.subagents.labelled import LabelledAsker, LabelledLog
from agentcore.subagents.modes import mode_of
from agentcore.toolbox import Toolbox
from agentcore.transcript import Transcript
from agentcore.turn import Model, SideModel
from agentcore.validator import Validator
from agentcore.walk import Walk
from agentcore.worktrees import Worktree, Worktrees

_NOT_LATER = "a subagent cannot wait for a result that comes later. Leave this call to the main agent."


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a subagent is, for what is made for it."""

    label: str
    kind: AgentKind
    log: EventLog
    transcript: Transcript
    ledger: SubagentLedger
    workspace: Workspace
    mode: Callable[[], Mode]

    def turn(self) -> int:
        return self.ledger.turns


@dataclass(frozen=True, slots=True)
class Skilled:
    """What a subagent has of skills, whose commands run where it works."""

    tools: Mapping[str, Tool]
    """The tool `skill`; nothing where there is none."""
    preload: Callable[[], Awaitable[Preloaded]]
    """Those that its file names."""


class Outfitter(Protocol):
    """Makes what depends on who works, and where, the same way as for the main agent."""

    def tools(self, who: Identity, checkpoints: Checkpoints | None) -> Mapping[str, Tool]: ...

    def hooks(self, who: Identity, tools: Mapping[str, Tool]) -> Hooks: ...

    def gate(self, who: Identity, asker: Asker | None, added: Rulebook) -> SessionGate: ...

    def hold(self, asker: HookedAsker, gate: SessionGate, tools: Mapping[str, Tool]) -> None:
        """Give an asker what it checks the inputs by that hooks put in the place of others."""
        ...

    def skills(self, who: Identity, gate: SessionGate, tools: Mapping[str, Tool]) -> Skilled: ...

    def servers(self, who: Identity, asker: Asker | None, worktree: Worktree | None) -> LentServers:
        """What it has of the session's servers of tools, whose questions take its own way to a person."""
        ...

    def moved_rules(self, worktree: Worktree) -> Rulebook:
        """What is forbidden and asked about in the project, as it is there."""
        ...


@dataclass(frozen=True, slots=True)
class Lent:
    """What a session lends to its subagents."""

    session: OpenSession
    workspace: Workspace
    outfitter: Outfitter
    said: Callable[[], Said]
    """What the context that goes on was told by people."""
    asker: Asker | None
    guard: Guard
    checkpoints: Checkpoints
    worktrees: Worktrees
    candidates_of: Callable[[str], tuple[Candidate, ...]]
    """Raises: BadRequest."""
    default_model: str
    cool_downs: CoolDowns
    patience: Patience
    clock: Clock
    compaction: Plan
    warn_at: float


class _NoDeferrals(Deferrals):
    def was_used(self, token: str) -> bool:
        raise ToolError(f"This has begun, but {_NOT_LATER}")


class Subagent:
    """One of them, for its one run."""

    def __init__(
        self,
        lent: Lent,
        kind: AgentKind,
        label: str,
        model: str,
        worktree: Worktree | None,
        stopping: anyio.Event,
        task_id: str | None,
    ) -> None:
        """`task_id` is that of the background task that it is, if it is one. Raises: BadRequest."""
        history, outfitter = lent.session.history, lent.outfitter
        self.label = label
        self.task_id = task_id
        self.log: EventLog = LabelledLog(lent.session.log, label)
        self.transcript = Transcript()
        self._lent = lent
        self._kind = kind
        self._stopping = stopping
        self._ledger = SubagentLedger(session=history.ledger)
        self._model = Model(self.log, self.transcript, self._ledger, lent.clock, lent.patience, call_prefix=f"{label}_")
        self._candidates = lent.candidates_of(model)
        workspace = lent.workspace if worktree is None else worktree.workspace
        is_shared = kind.origin.is_shared

        def mode() -> Mode:
            return mode_of(history.settings.mode, kind.mode, is_shared=is_shared)

        who = Identity(label, kind, self.log, self.transcript, self._ledger, workspace, mode)
        tools = outfitter.tools(who, lent.checkpoints if worktree is None else None)
        self.hooks = SubagentHooks(outfitter.hooks(who, tools), label, kind.name)
        self._asker = self._asker_of(lent, who)
        added = Rulebook() if worktree is None else outfitter.moved_rules(worktree)
        self.gate = outfitter.gate(who, self._asker, added)
        self.skilled = outfitter.skills(who, self.gate, tools)
        own = {**tools, **self.skilled.tools}
        if self._asker is not None:
            outfitter.hold(self._asker, self.gate, own)
        # one that asks nobody anything itself does not ask for a server either
        self._servers = outfitter.servers(who, self._asker if ASK_USER in own else None, worktree)
        self.tools = Toolbox(own, self._servers)
        self._system = subagent_prompt(kind.prompt, workspace.cwd, lent.clock.now(), lent.said())
        self._own_definitions = tuple(own[name].spec.definition() for name in sorted(own))
        self._validator = Validator()

    def _asker_of(self, lent: Lent, who: Identity) -> HookedAsker | None:
        if lent.asker is None:
            return None
        history = lent.session.history
        labelled = LabelledAsker(lent.asker, self.label, self.task_id, who.turn, lambda: history.settings.mode)
        is_background = self.task_id is not None

        def is_attended() -> bool:
            """What cannot be answered later is refused at once where answers are put off."""
            unattended = history.settings.unattended
            return unattended != "deny" and (unattended != "defer" or is_background)

        return HookedAsker(labelled, self.hooks, is_attended)

    async def close(self) -> None:
        """End what was started for it alone. Bounded, and shielded from cancellation."""
        await self._servers.close()

    @property
    def text(self) -> str:
        """What it said last."""
        return self._ledger.text

    def loop(self, must_suspend: Callable[[], bool]) -> Loop:
        """Its one run."""
        lent, walk = self._lent, self._walk()
        return Loop(
            transcript=self.transcript,
            walk=walk,
            calls=self._calls(),
            log=self.log,
            ledger=self._ledger,
            limits=Limits(max_turns=self._kind.max_turns),
            must_pause=self._stopping.is_set,
            compactor=self._compactor(walk),
            must_suspend=must_suspend,
            inbox=Inbox[Any](),
            deliver=_deliver_nothing,
            hooks=self.hooks,
            spending=spending_of(lent.session, self._asker, lent.warn_at),
        )

    def _walk(self) -> Walk:
        lent = self._lent
        return Walk(
            model=self._model,
            candidates=self._candidates,
            make_request=self._request,
            cool_downs=lent.cool_downs,
            patience=lent.patience,
            stopping=self._stopping,
            log=self.log,
            clock=lent.clock,
        )

    def _calls(self) -> Calls:
        def defer(call: ToolCall, token: str) -> None:
            raise AssertionError("a subagent's call is never deferred: see _NoDeferrals")

        return Calls(
            self.tools,
            self.gate,
            self.log,
            self.transcript,
            self._lent.clock,
            _NoDeferrals(),
            defer,
            self._ledger,
            self.hooks,
            self._lent.guard,
        )

    def _compactor(self, walk: Walk) -> ContextCompactor:
        lent = self._lent
        scene = Scene(
            transcript=self.transcript,
            ledger=self._ledger,
            log=self.log,
            walk=walk,
            side=SideModel(self.log, self.transcript, self._ledger, lent.clock, lent.patience),
            fixed_tokens=lambda: tokens_of_fixed(self._system, self._definitions),
            journal=pattern_of(lent.session.directory),
            sound_messages=self._sound_messages,
            hooks=self.hooks,
            check_summary=lent.guard.check_summary,
        )
        return ContextCompactor(scene, lent.compaction)

    # --- what its model is shown ---

    @property
    def _definitions(self) -> tuple[ToolDefinition, ...]:
        return self.tools.definitions(self._own_definitions)

    def _request(self, candidate: Candidate) -> ModelRequest:
        session, transcript = self._lent.session, self.transcript
        settings = session.history.settings
        if transcript.attachments.is_too_much:
            transcript.attachments.leave_out(transcript.messages)
            transcript.encoded.clear()
        return ModelRequest(
            model=candidate.model,
            system=self._system,
            tools=self._definitions,
            messages=self._sound_messages(),
            session=f"{session.id}-{self.label}",
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            effort=self._kind.effort or settings.effort,
            encoded=transcript.encoded,
            blob=self._blob,
        )

    def _sound_messages(self) -> tuple[Message, ...]:
        """Its transcript as every vendor takes it; what has to be mended for that is told."""
        repaired = self._validator.check(self.transcript.messages)
        if repaired is not None:
            self.transcript.mend(repaired.messages)
            turn = self._ledger.turn
            self.log.emit(Notice(turn=turn, level="warning", code="transcript_repaired", text=repaired.what))
        return self.transcript.messages

    def _blob(self, blob: str) -> bytes:
        """Raises: KeyError for what is gone, or left out."""
        if blob in self.transcript.attachments.left_out:
            raise KeyError(blob)
        return self._lent.session.blobs.get(blob)


async def _deliver_nothing() -> None:
    """Nobody speaks to a subagent while it works."""
