"""What Ollama says about a model: how much it can hold, and what it can do."""

from dataclasses import dataclass
from typing import Any

WINDOW_TOKENS = 32_768
"""What a conversation of an agent needs, and what a machine with a model of its own can hold. The backend's default
of 4,096 silently forgets the beginning; more than is needed costs memory with every token."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model, as far as it is known. None: Ollama did not tell."""

    trained_tokens: int | None = None
    """The largest window it was made for."""
    capabilities: frozenset[str] | None = None

    @property
    def window(self) -> int:
        """Tokens to ask for, where the user says nothing."""
        return min(WINDOW_TOKENS, self.trained_tokens or WINDOW_TOKENS)

    def can(self, capability: str) -> bool | None:
        return None if self.capabilities is None else capability in self.capabilities


UNKNOWN = Model()


def read_model(shown: Any) -> Model:
    """Read the answer of `/api/show`. What is not of the known form counts as not told."""
    if not isinstance(shown, dict):
        return UNKNOWN
    info, told = shown.get("model_info"), shown.get("capabilities")
    return Model(
        trained_tokens=_length(info) if isinstance(info, dict) else None,
        capabilities=frozenset(map(str, told)) if isinstance(told, list) else None,
    )


def _length(info: dict[str, Any]) -> int | None:
    """The key begins with the architecture: `qwen3.context_length`."""
    value = info.get(f"{info.get('general.architecture')}.context_length")
    return value if type(value) is int and value > 0 else None
