"""The prompts of a session that wait for their run, in the order in which they will have it.

A fold like every other: the live session and the one read back from its journal keep the same queue by the same calls.
"""

from collections.abc import Iterable, Sequence

from agentcore.events import QueuedPrompt
from agentcore.sessions.records import Prompt

SHOWN_CHARS = 500  # of a prompt's text in `queue_update` and `snapshot`; the whole is at `GET …/queue/{prompt_id}`
HIDDEN = "[The guard looks at this prompt before it is shown.]"


class WaitingPrompts:
    def __init__(self) -> None:
        self._prompts: dict[str, Prompt] = {}
        self.hides_texts = False
        """The guard is on: nobody has looked at what waits here."""

    def __len__(self) -> int:
        return len(self._prompts)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return tuple(self._prompts.values())

    @property
    def first(self) -> Prompt | None:
        return next(iter(self._prompts.values()), None)

    def __getitem__(self, prompt_id: str) -> Prompt:
        return self._prompts[prompt_id]

    def find(self, prompt_id: str) -> Prompt | None:
        return self._prompts.get(prompt_id)

    def add(self, prompt: Prompt) -> None:
        """Put a prompt behind the others - one that interrupts a run before them - or a changed one in its place."""
        if prompt.prompt_id in self._prompts or prompt.disposition != "interrupting":
            self._prompts[prompt.prompt_id] = prompt
        else:
            self.put_first([prompt])

    def put_first(self, prompts: Iterable[Prompt]) -> None:
        """Put prompts before all others but those that interrupted a run: these come first, in their own order."""
        split = next((n for n, one in enumerate(self.prompts) if one.disposition != "interrupting"), len(self))
        self._set([*self.prompts[:split], *prompts, *self.prompts[split:]])

    def take(self, prompt_id: str) -> Prompt | None:
        return self._prompts.pop(prompt_id, None)

    def keep(self, prompt_ids: Sequence[str]) -> frozenset[str]:
        """Keep just these, in this order, and return the ids of the others; names that are not here mean nothing."""
        before = frozenset(self._prompts)
        self._set([self._prompts[name] for name in prompt_ids if name in self._prompts])
        return before.difference(self._prompts)

    def shown(self, prompts: Iterable[Prompt] | None = None) -> tuple[QueuedPrompt, ...]:
        """The queue as clients see it, or just these of it."""
        told = (shown(prompt, SHOWN_CHARS) for prompt in (self.prompts if prompts is None else prompts))
        if self.hides_texts:
            told = (one.model_copy(update={"text": HIDDEN, "is_cut": True}) for one in told)
        return tuple(told)

    def _set(self, prompts: Iterable[Prompt]) -> None:
        self._prompts = {prompt.prompt_id: prompt for prompt in prompts}


def shown(prompt: Prompt, chars: int | None = None) -> QueuedPrompt:
    """A queued prompt as clients see it; of its text the first so many characters."""
    text = prompt.text if chars is None else prompt.text[:chars]
    return QueuedPrompt(
        prompt_id=prompt.prompt_id,
        text=text,
        is_cut=len(text) < len(prompt.text),
        attachments=len(prompt.attachments),
        ts=prompt.ts,
    )
