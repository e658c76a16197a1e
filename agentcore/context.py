"""What a model is shown of a conversation: its system prompt and tools, its messages, and the files in them.

Knows the session's journal and history, and asks no model itself. What has to be mended or left out, so that a vendor
takes the request, is journaled and told here before it is sent. Promise: within one context the beginning of every
request is the same, so that it hits the provider's cache.
"""

from collections.abc import Callable
from pathlib import Path

from agentcore.candidates import Candidate
from agentcore.estimate import tokens_of_fixed
from agentcore.events import SUBAGENT_TOOL, Notice
from agentcore.instructions import system_prompt
from agentcore.messages import Message
from agentcore.ports.clock import Clock
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.ports.servers import Servers
from agentcore.ports.tools import ToolSpec
from agentcore.sessions.fold import mended
from agentcore.sessions.records import Context, Repair
from agentcore.sessions.store import OpenSession
from agentcore.skills_in_use import SkillsInUse
from agentcore.structured import StructuredEnding
from agentcore.subagents.tool import described
from agentcore.surroundings import Surroundings
from agentcore.toolbox import Toolbox
from agentcore.validator import Validator


class ModelContext:
    """Of one conversation, for all of its runs."""

    def __init__(
        self,
        session: OpenSession,
        tools: Toolbox,
        servers: Servers,
        clock: Clock,
        surroundings: Surroundings,
        in_use: SkillsInUse,
    ) -> None:
        self._session = session.id
        self._log = session.log
        self._history = session.history
        self._blobs = session.blobs
        self._tools = tools
        self._servers = servers
        self._clock = clock
        self._surroundings = surroundings
        self._in_use = in_use
        self._validator = Validator()

    def request_maker(self, ending: StructuredEnding | None) -> Callable[[Candidate], ModelRequest]:
        """What makes the requests of a run that may end so. Raises: StorageUnavailable."""
        context, settings, transcript = self._context(), self._history.settings, self._history.transcript

        def make_request(candidate: Candidate) -> ModelRequest:
            self._tell_of_servers()
            tools = self._tools.definitions(context.tools)
            if transcript.attachments.is_too_much:
                self._leave_old_files_out()
            return ModelRequest(
                model=candidate.model,
                system=context.system,
                tools=tools if ending is None else ending.with_tool(tools),
                messages=self.sound_messages(),
                session=self._session,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                effort=self._in_use.effort or settings.effort,
                encoded=transcript.encoded,
                blob=self._shown_blob,
                output_schema=None if ending is None else ending.vendor_schema,
            )

        return make_request

    def fixed_tokens(self) -> int:
        """Estimate of what stands before the messages in every request. Raises: StorageUnavailable."""
        context = self._context()
        return tokens_of_fixed(context.system, self._tools.definitions(context.tools))

    def sound_messages(self) -> tuple[Message, ...]:
        """The transcript as every vendor takes it; what has to be mended for that is journaled and told.

        Raises: StorageUnavailable.
        """
        messages = self._history.transcript.messages
        repaired = self._validator.check(messages)
        if repaired is None:
            return messages
        self._log.record(Repair(what=repaired.what, messages=repaired.messages))
        mended(self._history, repaired.messages)
        turn = self._history.ledger.turn
        self._log.emit(Notice(turn=turn, level="warning", code="transcript_repaired", text=repaired.what))
        return repaired.messages

    def _context(self) -> Context:
        """What the model is told first; made and journaled once per fresh context."""
        history = self._history
        if history.context is None:
            around = self._surroundings
            system = system_prompt(Path(history.meta.cwd), self._clock.now(), around.said)
            own = self._tools.own
            names = [name for name in sorted(own) if name != "skill" or around.index.has_any_for_model]
            tools = tuple(self._definition(own[name].spec) for name in names)
            history.context = Context(system=system, tools=tools)
            self._log.record(history.context)
        return history.context

    def _definition(self, spec: ToolSpec) -> ToolDefinition:
        if spec.name == SUBAGENT_TOOL:
            return described(spec, self._surroundings.agents.kinds.values())
        return spec.definition()

    def _tell_of_servers(self) -> None:
        """Say what has become of servers since the last call, where their tools are taken for the next one."""
        for notice in self._servers.take_notices():
            self._log.emit(notice.model_copy(update={"turn": self._history.ledger.turn or None}))

    def _leave_old_files_out(self) -> None:
        """The conversation has shown more files than a request can hold: the oldest are no longer shown."""
        transcript = self._history.transcript
        count = transcript.attachments.leave_out(transcript.messages)
        transcript.encoded.clear()
        text = f"A request cannot hold more files: the oldest {count} are no longer shown to the model."
        self._log.emit(Notice(turn=self._history.ledger.turn, level="warning", code="files_left_out", text=text))

    def _shown_blob(self, blob: str) -> bytes:
        """Raises: KeyError for what is gone, or left out."""
        if blob in self._history.transcript.attachments.left_out:
            raise KeyError(blob)
        return self._blobs.get(blob)
