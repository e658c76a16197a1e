"""What a run is made of, put together from a session and the parts of its agent. No logic of its own.

Nothing that is made here knows its maker: a closed session is freed without the collector.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio

from agentcore.attachments import Attachments
from agentcore.background.room import BackgroundTasks
from agentcore.budget import DEFAULT_MAX_TURNS, Limits
from agentcore.budgets import spending_of
from agentcore.call import Calls
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.compaction.compactor import ContextCompactor, Plan, Scene
from agentcore.context import ModelContext
from agentcore.delegating import Delegation
from agentcore.expansion import Expander
from agentcore.guard.guard import Guard
from agentcore.loop import Loop
from agentcore.messages import ToolCall
from agentcore.permissions.gate import SessionGate
from agentcore.ports.clock import Clock
from agentcore.ports.hooks import Hooks
from agentcore.ports.permission import Asker
from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import Tool
from agentcore.retry import Patience
from agentcore.session import DeferredCall
from agentcore.sessions.records import Deferral, Prompt
from agentcore.sessions.segments import pattern_of
from agentcore.sessions.store import OpenSession
from agentcore.skills_in_use import SkillsInUse
from agentcore.structured import OutputSchema, StructuredEnding
from agentcore.surroundings import Surroundings
from agentcore.toolbox import Toolbox
from agentcore.turn import Model, SideModel
from agentcore.walk import Walk
from agentcore.wiretap import Listener


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of besides its session."""

    tools: Mapping[str, Tool]
    """Its own; those of servers are in `toolbox` as well."""
    gate: SessionGate
    candidates_of: Callable[[str], tuple[Candidate, ...]]
    """`provider/model` to that model and the ones that may stand in for it, in order of preference."""
    cool_downs: CoolDowns
    patience: Patience
    default_model: str
    clock: Clock
    attachments: Attachments
    compaction: Plan
    checkpoints: SessionCheckpoints
    asker: Asker | None
    """Brings a question about the budget to whoever can answer it."""
    warn_at: float
    """The part of a limit of the budget at which a person is told."""
    hooks: Hooks
    guard: Guard
    surroundings: Surroundings
    expander: Expander
    background: BackgroundTasks
    delegation: Delegation
    in_use: SkillsInUse
    tracer: Callable[[], Listener | None]
    """Who keeps what is sent to models just now."""
    servers: Servers = NO_SERVERS

    @property
    def toolbox(self) -> Toolbox:
        """All its tools."""
        return Toolbox(self.tools, self.servers)


class Assembly:
    """Makes what the runs of one conversation need. What outlives a run - the models - it makes once."""

    def __init__(self, session: OpenSession, parts: Parts, stopping: anyio.Event) -> None:
        """`stopping` is set when the process stops."""
        history, log, clock, patience = session.history, session.log, parts.clock, parts.patience
        self.model = Model(log, history.transcript, history.ledger, clock, patience)
        self._side = SideModel(log, history.transcript, history.ledger, clock, patience)
        self._session = session
        self._parts = parts
        self._context = ModelContext(session, parts.toolbox, parts.servers, clock, parts.surroundings, parts.in_use)
        self._stopping = stopping

    def calls(self, ending: StructuredEnding | None) -> Calls:
        """The calls of a run, with the tool that its ending adds."""
        added = {} if ending is None or ending.tool is None else {ending.tool.spec.name: ending.tool}
        history, log, clock = self._session.history, self._session.log, self._parts.clock
        deferrals = history.deferrals

        def defer(call: ToolCall, token: str) -> None:
            now, seconds = clock.now(), history.settings.expires_after_s
            expires_at = None if seconds is None else round(now + seconds, 3)
            deferred = DeferredCall(token=token, call_id=call.id, tool_name=call.name, expires_at=expires_at)
            log.record(Deferral(call=deferred, ts=round(now, 3)))
            deferrals.add(deferred)

        tools = self._parts.toolbox.beside(added)
        parts, transcript, ledger = self._parts, history.transcript, history.ledger
        return Calls(tools, parts.gate, log, transcript, clock, deferrals, defer, ledger, parts.hooks, parts.guard)

    def walk(self, candidates: tuple[Candidate, ...], ending: StructuredEnding | None) -> Walk:
        """The way to an answer of one of the candidates. Raises: StorageUnavailable."""
        return Walk(
            model=self.model,
            candidates=candidates,
            make_request=self._context.request_maker(ending),
            cool_downs=self._parts.cool_downs,
            patience=self._parts.patience,
            stopping=self._stopping,
            log=self._session.log,
            clock=self._parts.clock,
        )

    def compactor(self, walk: Walk) -> ContextCompactor:
        """For one run, or one request."""
        session, context = self._session, self._context
        scene = Scene(
            transcript=session.history.transcript,
            ledger=session.history.ledger,
            log=session.log,
            walk=walk,
            side=self._side,
            fixed_tokens=context.fixed_tokens,
            journal=pattern_of(session.directory),
            sound_messages=context.sound_messages,
            hooks=self._parts.hooks,
            check_summary=self._parts.guard.check_summary,
        )
        return ContextCompactor(scene, self._parts.compaction)

    def loop(
        self,
        walk: Walk,
        calls: Calls,
        ending: StructuredEnding | None,
        must_suspend: Callable[[], bool],
        deliver: Callable[[], Awaitable[None]],
    ) -> Loop:
        """One run, from wherever the journal says it stands; see Loop."""
        history = self._session.history
        return Loop(
            transcript=history.transcript,
            walk=walk,
            calls=calls,
            log=self._session.log,
            ledger=history.ledger,
            limits=Limits(max_turns=history.settings.max_turns or DEFAULT_MAX_TURNS),
            must_pause=self._stopping.is_set,
            compactor=self.compactor(walk),
            must_suspend=must_suspend,
            inbox=history.inbox,
            deliver=deliver,
            last_stop=history.last_stop,
            ending=ending,
            hooks=self._parts.hooks,
            spending=spending_of(self._session, self._parts.asker, self._parts.warn_at),
        )


def ending_of(prompt: Prompt, candidates: tuple[Candidate, ...]) -> StructuredEnding | None:
    """How the run of a prompt with a schema may end: by the vendors' own means only where each of them has them."""
    if prompt.output_schema is None:
        return None
    is_native = all(one.provider.has_structured_output(one.model) for one in candidates)
    return StructuredEnding(OutputSchema(prompt.output_schema), by_tool=not is_native)
