"""What a person says, as the model gets it: heard by hooks, with its skill and its files, past the guard.

For one conversation. Promise: where hooks must hear prompts, or the guard is on, nothing reaches the model that they
have not let through; otherwise a prompt is not lost, whatever cuts its opening off.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcore.candidates import Candidate
from agentcore.events import Notice, UserMessage
from agentcore.expansion import Expander
from agentcore.guard.guard import Clean, Guard, Redacted, Rejected
from agentcore.hearing import Hearing
from agentcore.hooks.words import with_context
from agentcore.instructions import has_heard
from agentcore.notes import server_note, with_notes
from agentcore.ports.log import EventLog
from agentcore.ports.servers import Servers
from agentcore.sessions.fold import History, OpenRun
from agentcore.skills.kept import used_since
from agentcore.skills.skill import Skill
from agentcore.surroundings import Beginning, Surroundings
from agentcore.turn import window_of


class Opening:
    def __init__(
        self,
        history: History,
        log: EventLog,
        hearing: Hearing,
        surroundings: Surroundings,
        expander: Expander,
        guard: Guard,
        servers: Servers,
        note: Callable[[str], None],
    ) -> None:
        """`note` keeps a note for the next prompt, and raises StorageUnavailable."""
        self._history = history
        self._log = log
        self._hearing = hearing
        self._surroundings = surroundings
        self._expander = expander
        self._guard = guard
        self._servers = servers
        self._note = note
        self._noted: set[str] = set()
        """Servers whose words came in a note."""

    async def look_around(self, candidates: Sequence[Candidate]) -> None:
        """Read what a fresh context begins with, past the guard; a run that goes on needs its skills.

        Raises: StorageUnavailable.
        """
        fresh = None
        if self._history.context is None:
            append, servers = self._history.settings.system_append or "", self._servers.instructions()
            fresh = Beginning(window_of(candidates[0]), append, servers)
            self._noted.clear()
        else:
            self._note_servers(self._history.context.system)
        for notice in await self._surroundings.look(fresh, self._guard.check_outputs):
            self._log.emit(notice)

    def _note_servers(self, system: str) -> None:
        """Let the model learn what servers say that were not there when the context began, each once."""
        for name, text in self._servers.instructions().items():
            if name not in self._noted and not has_heard(system, name):
                self._note(server_note(name, text))
                self._noted.add(name)

    async def used_skills(self, run: OpenRun) -> list[Skill]:
        """The skills that a run used which goes on after a crash, as far as they are there."""
        used = used_since(self._history.transcript.messages, run.message_id)
        for name, folder in used.items():
            if name not in self._surroundings.index.skills:  # it came with a file
                await self._surroundings.come_to(Path(self._history.meta.cwd, folder, "SKILL.md"))
        skills = self._surroundings.index.skills
        return [skills[name] for name in used if name in skills]

    def as_typed(self, run: OpenRun) -> UserMessage | None:
        """The prompt of a run as it is, for a run that ends before it was opened; None where nobody may be shown it."""
        if self._hearing.must_hear_prompts or self._guard.is_on:
            return None
        return with_notes(run.prompt.message("prompt"), self._history.notes)

    async def of_prompt(self, run: OpenRun) -> UserMessage | None:
        """The first message of a run; None where it was blocked. Raises: Halted, StorageUnavailable."""
        heard = await self._hearing.prompt(run)
        if heard.blocked is not None:
            return None
        message = await self._expanded(run.prompt.message("prompt"))
        checked = await self._checked(message)
        if checked is None:
            return None
        notes = [await self._guard.check_output(note) for note in self._history.notes]
        return with_notes(with_context(checked, heard.context), notes)

    async def of_steer(self, message: UserMessage) -> UserMessage | None:
        """A message to the run that is going on; None where hooks or the guard do not let it through.

        Raises: Halted, StorageUnavailable.
        """
        heard = await self._hearing.steer(message.typed_text)
        if heard.blocked is not None:
            return None
        checked = await self._checked(await self._expanded(message))
        return None if checked is None else with_context(checked, heard.context)

    async def _expanded(self, message: UserMessage) -> UserMessage:
        expanded = await self._expander.expand(message)
        for notice in expanded.notices:
            self._log.emit(notice)
        return expanded.message

    async def _checked(self, message: UserMessage) -> UserMessage | None:
        match await self._guard.check_blocks(message.content):
            case Clean():
                return message
            case Redacted(content):
                typed = message.display_text  # where it is told apart it is one of the blocks as well
                shown = None if typed is None else await self._guard.check_output(typed)
                return message.model_copy(update={"content": content, "display_text": shown})
            case Rejected(kinds):
                text = f"The guard does not let this prompt through: it holds {', '.join(kinds)}. Send it without."
                self._log.emit(Notice(level="warning", code="prompt_blocked", text=text))
                return None
