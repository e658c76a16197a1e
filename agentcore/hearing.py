"""What the user's hooks hear of a run that none of its parts sees: how it begins, and how it ends.

For one conversation. What SessionStart hooks say is told to the model with the first prompt that reaches it.
"""

from agentcore.events import Error, SessionUpdated, StopReason
from agentcore.ports.hooks import EndedRun, Halted, Heard, Hooks, SessionSource
from agentcore.sessions.fold import OpenRun, updated
from agentcore.sessions.store import OpenSession


class Hearing:
    def __init__(self, session: OpenSession, hooks: Hooks, source: SessionSource) -> None:
        self._log = session.log
        self._history = session.history
        self._hooks = hooks
        self._source = source
        self._is_started = False
        self._is_put_off = False
        """The context was begun by a run that hooks hear nothing of: its beginning is still to be heard."""
        self._untold: tuple[str, ...] = ()

    def begin_anew(self) -> None:
        """The context was cleared: the next prompt begins a fresh one."""
        self._source, self._is_started, self._untold = "clear", False, ()

    def put_off(self) -> None:
        """A run begins that nobody prompted: what hooks hear of a fresh context waits for the next prompt."""
        self._is_put_off = self._is_put_off or self._history.context is None

    @property
    def must_hear_prompts(self) -> bool:
        """No prompt may reach the model that no hook has heard."""
        return self._hooks.has_prompt_hooks

    async def prompt(self, run: OpenRun) -> Heard:
        """Let hooks hear the prompt of a run, and before it the beginning of its context. Raises: Halted."""
        await self._start()
        heard = await self._hooks.prompt_submitted(run.prompt.text)
        self._obey(heard)
        if heard.blocked is not None:
            return heard
        untold, self._untold = self._untold, ()
        return Heard(context=(*untold, *heard.context))

    async def steer(self, text: str) -> Heard:
        """Let hooks hear what is said to the run that is going on, as they hear its prompt. Raises: Halted."""
        heard = await self._hooks.prompt_submitted(text)
        self._obey(heard)
        return heard

    async def end(self, run: OpenRun, reason: StopReason, error: Error | None) -> None:
        """Let hooks hear that a run is about to have its `done`."""
        if error is not None:
            await self._hooks.stop_failed(error.code, error.text)
        await self._hooks.run_ended(self._ended(run, reason))

    def left(self, run: OpenRun) -> None:
        """As `end`, of a run that nobody goes on with; it does not wait."""
        self._hooks.run_left(self._ended(run, "interrupted"))

    async def _start(self) -> None:
        if self._is_started or (self._history.context is not None and not self._is_put_off):
            return
        heard = await self._hooks.session_started(self._source)
        self._is_started, self._untold = True, heard.context
        self._obey(heard)

    def _obey(self, heard: Heard) -> None:
        if heard.title is not None:
            change = SessionUpdated(title=heard.title, by="hook")
            self._log.emit(change)
            self._history.settings = updated(self._history.settings, change)
        if heard.is_halt:
            raise Halted

    def _ended(self, run: OpenRun, reason: StopReason) -> EndedRun:
        ledger, prompt = self._history.ledger, run.prompt
        return EndedRun(prompt.run_id, prompt.prompt_id, reason, ledger.text, ledger.run_turns)
