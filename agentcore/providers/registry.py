"""From `provider/model` to a provider: what there is, what is ready, and why the rest is not.

Importing this room loads no SDK and no HTTP library; a provider is made when it is first asked for, and lives until
`close`. What there is stands in `vendors`, how it was set up in `setups`, what runs on this machine in `local`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice

from agentcore.errors import BadRequest, ProviderError
from agentcore.ports.models import Provider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.local import Seen, Target, look
from agentcore.providers.setups import Setup, notices, set_up
from agentcore.providers.vendors import DEMO, DIALECTS
from agentcore.settings.names import MAX_NOTICES, nearest
from agentcore.settings.providers import ModelNames

LOOK_AGAIN_S = 30.0  # what runs on this machine is asked at most this often for the sake of a list
SHOWN_MODELS = 5
"""So many are named where a model that was asked for is not among them."""
_DEMO_MODEL = f"scripted/{DEMO}"


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """What a person is told about a provider."""

    name: str
    models: tuple[str, ...]
    """A choice, not a limit: other names are passed on to the vendor."""
    ready: bool
    why_not: str | None
    """What to do when it is not ready."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What is known about a model without asking its vendor. None: unknown."""

    name: str
    context_window: int | None
    """Tokens."""
    input_usd: float | None
    """Per million tokens, as `output_usd`; the price of short requests where long ones cost more."""
    output_usd: float | None


class Providers:
    """The providers of one process. Makes each at most once; synchronous, so no two callers can make two."""

    def __init__(
        self,
        environ: Mapping[str, str],
        names: ModelNames | None = None,
        *,
        loading: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`loading` is entered around the making of each client, in a worker thread: what is loaded then stays."""
        names = names or ModelNames()
        self._setups: dict[str, Setup] = {}
        for setup in set_up(environ, names.providers):
            self._setups.setdefault(setup.name, setup)
        self.aliases = names.aliases
        self._loading = loading
        self._clock = clock
        self._seen: dict[str, Seen] = {}
        self._looked_at: float | None = None
        self._made: dict[str, Provider] = {}

    # --- names ---

    def parse(self, model: str) -> tuple[str, str]:
        """Split `provider/model`, or the short name of one; the model may hold slashes.

        Raises: BadRequest with what to send instead.
        """
        model = self.aliases.get(model, model)
        provider, slash, name = model.partition("/")
        if not slash or not name:
            example = self._meant(model) or f", such as {self.default_model()}"
            short = f", or by a short name: {', '.join(self.aliases)}" if self.aliases else ""
            raise BadRequest(f"A model is named provider/model{example}{short}; {self._known()}.")
        if provider not in self._setups:
            raise BadRequest(
                f"There is no provider of the name {provider[:40]!r}{self._meant(model)}; {self._known()}."
            )
        return provider, name

    def full_name(self, model: str) -> str:
        """Return `provider/model`, of a short name as well. Raises: BadRequest."""
        return "/".join(self.parse(model))

    def get(self, name: str) -> Provider:
        """Return the provider of that name, ready or not. Raises: BadRequest."""
        if name not in self._setups:
            raise BadRequest(f"There is no provider of the name {name[:40]!r}; {self._known()}.")
        if name not in self._made:
            self._made[name] = self._make(self._setups[name])
        return self._made[name]

    def named(self, model: str) -> tuple[Provider, str]:
        """The provider of a full or short name, and the model's name there. Raises: BadRequest."""
        provider, name = self.parse(model)
        return self.get(provider), name

    # --- choosing ---

    def choose(self) -> str:
        """Name the model to use when nobody chose one; asks the servers on this machine only where there is no key."""
        if self._first_with_key() is None:
            self.look(LOOK_AGAIN_S)
        return self.default_model()

    def default_model(self) -> str:
        """Name the first model of the first provider that is ready, as far as it is known without asking."""
        return self._first_with_key() or self._first_nearby() or _DEMO_MODEL

    def look(self, max_age_s: float = 0.0) -> None:
        """Ask the model servers on this machine what they have, unless that was done in the last `max_age_s`.

        Blocks for a quarter of a second at most; where nothing runs, for a few milliseconds.
        """
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < max_age_s:
            return
        self._looked_at = now
        asked = [setup for setup in self._setups.values() if setup.is_asked]
        targets = [Target(setup.list_url, next(iter(setup.endpoint.key.secrets), "")) for setup in asked]
        self._seen = dict(zip((setup.name for setup in asked), look(targets), strict=True))

    # --- telling ---

    def describe(self) -> list[ProviderStatus]:
        """Tell about every provider, in the order of preference."""
        return [self.status(setup.name) for setup in self._setups.values() if setup.is_shown]

    def status(self, name: str) -> ProviderStatus:
        """Tell about one provider that `parse` knows."""
        setup = self._setups[name]
        why_not = self._why_not(setup)
        return ProviderStatus(name, self._models(setup), ready=why_not is None, why_not=why_not)

    def why_not(self, name: str) -> str | None:
        """Say why a provider is not ready, as far as it is known without asking anyone; None when nothing is wrong."""
        return self._setups[name].why_not()

    def why_no_script(self, model: str) -> str | None:
        """Say why the script that a model names cannot be played; None for any other model. Blocking: it is read."""
        name, script = self.parse(model)
        if self._setups[name].type != "scripted":
            return None
        from agentcore.providers.scripted.script import DEMO, load_script

        try:
            if script != DEMO:
                load_script(script)
        except ProviderError as error:
            return str(error)
        return None

    def models(self, name: str) -> list[ModelStatus]:
        """Tell about the models that a provider offers."""
        from agentcore.providers.catalogue import context_window, prices

        setup = self._setups[name]
        endpoint, dialect = self._endpoint(setup), DIALECTS[setup.type]
        vendor, window = endpoint.vendor, endpoint.context_length
        return [
            ModelStatus(model, window or context_window(vendor, model) or dialect.window(model), *prices(vendor, model))
            for model in self._models(setup)
        ]

    def notices(self) -> list[str]:
        """What a person should know at the start, a sentence each: what was set up wrongly, keys in the open."""
        return [*notices(list(self._setups.values())), *islice(self._lost_aliases(), MAX_NOTICES)]

    def passed_over(self) -> Iterator[str]:
        """Say of each provider that somebody set up why it was not taken when nobody chose a model."""
        has_key = self._first_with_key() is not None
        for setup in self._setups.values():
            if not setup.is_set_up:
                continue
            why_not = self._why_not(setup) if setup.name in self._seen else setup.why_not()
            if why_not is not None:
                yield why_not
            elif not has_key and not self._models(setup):
                how = f"--model {setup.name}/<model>, or `model` in settings.toml"
                yield f"{setup.name} is ready, but no model of it is chosen: {how}"

    def doubt(self, model: str) -> str | None:
        """Say why a model that `parse` knows cannot be used, or may not be there, by what was seen when last asked."""
        name, model = self.parse(model)
        setup, seen = self._setups[name], self._seen.get(name)
        if (why_not := self._why_not(setup)) is not None:
            return why_not
        if seen is None or not seen.models or model in seen.models or f"{model}:latest" in seen.models:
            return None
        some = ", ".join(seen.models[:SHOWN_MODELS]) + (", …" if len(seen.models) > SHOWN_MODELS else "")
        return f"{setup.endpoint.title} lists no model {model} that can chat; it has {some}."

    @property
    def key_variables(self) -> frozenset[str]:
        """Environment variables that hold keys: not for the model's tools."""
        return frozenset(name for setup in self._setups.values() for name in setup.key_variables)

    # --- its life ---

    async def close(self) -> None:
        made, self._made = self._made, {}
        for provider in made.values():
            await provider.close()

    # --- inside ---

    def _make(self, setup: Setup) -> Provider:
        from agentcore.providers.answers import HttpProvider  # late: a start waits for nothing that only calls need

        provider = DIALECTS[setup.type].make(self._endpoint(setup))
        if isinstance(provider, HttpProvider):
            provider.loading = self._loading
        return provider

    def _endpoint(self, setup: Setup) -> Endpoint:
        """Say whose prices count; only here, since that reads the catalogue."""
        from agentcore.providers.catalogue import vendor_of_host

        endpoint = setup.endpoint
        return endpoint if endpoint.vendor else replace(endpoint, vendor=vendor_of_host(endpoint.host) or "")

    def _models(self, setup: Setup) -> tuple[str, ...]:
        seen = self._seen.get(setup.name)
        return seen.models if seen is not None and seen.models else setup.models

    def _why_not(self, setup: Setup) -> str | None:
        problem = setup.why_not()
        if problem is not None or not setup.is_asked:
            return problem
        title, place = setup.endpoint.title, setup.endpoint.base_url
        seen = self._seen.get(setup.name)
        if seen is None:
            return f"{title} was not asked yet whether it runs: look again in a moment."
        if not seen.answers:
            return f"{title} does not answer at {place}: start it, or correct {setup.endpoint.url_source}."
        if setup.is_named or seen.models:
            return None  # whoever set it up by hand knows that it talks, whether it lists its models or not
        what = "has no model that can chat: give it one" if seen.models is not None else "is not what answers there"
        return f"{title} at {place}: it {what}."

    def _first_with_key(self) -> str | None:
        keyed = (one for one in self._setups.values() if one.models and not one.is_asked and one.type != "scripted")
        return next((f"{one.name}/{one.models[0]}" for one in keyed if one.why_not() is None), None)

    def _first_nearby(self) -> str | None:
        nearby = ((setup, self._seen[setup.name].models) for setup in self._setups.values() if setup.name in self._seen)
        return next((f"{setup.name}/{models[0]}" for setup, models in nearby if models), None)

    def _lost_aliases(self) -> Iterator[str]:
        for short in self.aliases:
            try:
                self.parse(short)
            except BadRequest as error:
                yield f"`{short}` in [aliases] of settings.toml leads nowhere: {error}"

    def _meant(self, model: str) -> str:
        """What a name that leads nowhere may have meant, as a part of a sentence; empty where nothing is near."""
        provider, slash, name = model.strip("/").partition("/")
        if slash and (near := nearest(provider, tuple(self._setups))):
            return f" (did you mean {near}/{name[:80]}?)"
        names = {short: short for short in self.aliases}
        for setup in self._setups.values():
            if setup.is_shown:
                models = self._models(setup)
                names.setdefault(setup.name, f"{setup.name}/{models[0] if models else '<model>'}")
                for one in models:
                    names.setdefault(one, f"{setup.name}/{one}")
        found = nearest(name or provider, tuple(names))
        return f" (did you mean {names[found]}?)" if found else ""

    def _known(self) -> str:
        return f"the providers are {', '.join(self._setups)}"
