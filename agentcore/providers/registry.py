"""From `provider/model` to a provider: what there is, what is ready, and why the rest is not.

Importing this room loads no SDK and no HTTP library; a provider is made when it is first asked for, and lives until
`close`. A new vendor is one entry in `_VENDORS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentcore.errors import BadRequest
from agentcore.ports import Provider
from agentcore.providers.anthropic import models as anthropic_models
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.scripted.provider import ScriptedProvider
from agentcore.providers.scripted.script import DEMO


class _Checkable(Provider, Protocol):
    """A provider that can tell before its first call what it lacks."""

    def why_not(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Vendor:
    make: Callable[[Mapping[str, str]], _Checkable]
    models: tuple[str, ...]
    """Offered to people; the first is the default one."""


_VENDORS: dict[str, _Vendor] = {
    "anthropic": _Vendor(AnthropicProvider, anthropic_models.OFFERED),
    "scripted": _Vendor(lambda environ: ScriptedProvider(), (DEMO,)),
}
"""In the order in which a default is looked for; `scripted` comes last, it is always ready."""


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """What a person is told about a provider."""

    name: str
    models: tuple[str, ...]
    """A choice, not a limit: other names are passed on to the vendor."""
    ready: bool
    why_not: str | None
    """What to do when it is not ready."""


class Providers:
    """The providers of one process. Makes each at most once; synchronous, so no two callers can make two."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._made: dict[str, _Checkable] = {}

    def parse(self, model: str) -> tuple[str, str]:
        """Split `provider/model`; the model may hold slashes. Raises: BadRequest with what to send instead."""
        provider, slash, name = model.partition("/")
        known = ", ".join(_VENDORS)
        if not slash or not name:
            example = self.default_model()
            raise BadRequest(f"A model is named provider/model, such as {example}; the providers are {known}.")
        if provider not in _VENDORS:
            raise BadRequest(f"There is no provider of the name {provider[:40]!r}; the providers are {known}.")
        return provider, name

    def get(self, name: str) -> Provider:
        """Return the provider of that name, ready or not. Raises: BadRequest."""
        return self._get(name)

    def default_model(self) -> str:
        """Name the first model of the first provider that is ready."""
        name = next(name for name in _VENDORS if self._get(name).why_not() is None)
        return f"{name}/{_VENDORS[name].models[0]}"

    def describe(self) -> list[ProviderStatus]:
        """Tell about every provider, in the order of preference."""
        found = []
        for name, vendor in _VENDORS.items():
            why_not = self._get(name).why_not()
            found.append(ProviderStatus(name, vendor.models, ready=why_not is None, why_not=why_not))
        return found

    async def close(self) -> None:
        made, self._made = self._made, {}
        for provider in made.values():
            await provider.close()

    def _get(self, name: str) -> _Checkable:
        if name not in _VENDORS:
            raise BadRequest(
                f"There is no provider of the name {name[:40]!r}; the providers are {', '.join(_VENDORS)}."
            )
        if name not in self._made:
            self._made[name] = _VENDORS[name].make(self._environ)
        return self._made[name]
