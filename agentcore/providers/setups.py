"""The providers of one process as they were set up: the services known by name, changed and added to by the user.

Plain functions from the environment and the settings to values; nothing is asked and nothing is loaded. A section of
the settings wins over the environment, so that what a project's shell hook exports cannot redirect it. Promise: no key
goes to an address that it was not meant for. A service's own variables are read for the service of that name alone.
"""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.vendors import DIALECTS, SERVICES, Service
from agentcore.settings.providers import NamedProvider, ProviderSection, ProviderType

OLLAMA_PORT = 11434
_NEEDS_V1 = frozenset({"LLAMA_BASE_URL", "LM_STUDIO_API_BASE"})
"""Variables that people set with and without the `/v1` of the address."""
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that servers listen on
"""What a client makes of the address that a server listens on."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One provider, before it is made."""

    endpoint: Endpoint
    type: ProviderType
    models: tuple[str, ...] = ()
    """Offered without asking anyone."""
    is_named: bool = False
    """Set up by the user, under a name of his own."""
    is_set_up: bool = False
    """Somebody gave its key, its address or a section of the settings."""
    is_shown: bool = True
    """Told of in lists; a gateway that nobody set up is not."""
    key_variables: tuple[str, ...] = ()
    has_key_command: bool = False

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def is_asked(self) -> bool:
        """Whether it is a server on this machine that can be asked for its models, over plain HTTP."""
        endpoint = self.endpoint
        is_near = endpoint.why_not() is None and endpoint.is_local and endpoint.base_url.startswith("http://")
        return is_near and bool(DIALECTS[self.type].list_path)

    @property
    def list_url(self) -> str:
        return self.endpoint.base_url + DIALECTS[self.type].list_path

    def mistake(self) -> str | None:
        """What was set up wrongly; None when nothing is known to be."""
        return self.endpoint.problem or None if self.type == "scripted" else self.endpoint.mistake()

    def why_not(self) -> str | None:
        """What can be told without asking; None when nothing is known to be wrong."""
        return self.mistake() if self.type == "scripted" else self.endpoint.why_not()

    def notice(self) -> str | None:
        """What a person should know although it works."""
        endpoint = self.endpoint
        has_key = self.has_key_command or bool(endpoint.key.secrets)
        if has_key and not endpoint.is_local and endpoint.base_url.startswith("http://"):
            return f"The key of {endpoint.title} goes over the network unencrypted: its address begins with http://."
        return None


def set_up(environ: Mapping[str, str], named: Sequence[NamedProvider]) -> list[Setup]:
    """Everything there is, in the order of preference."""
    changed = {one.name: one for one in named}
    services = {name: _of_service(name, service, environ, changed.get(name)) for name, service in SERVICES.items()}
    own = [_of_named(one, environ) for one in named if one.name not in SERVICES]
    far = [setup for name, setup in services.items() if not SERVICES[name].is_local]
    near = [setup for name, setup in services.items() if SERVICES[name].is_local]
    return [*far, *own, *near]


def ollama_url(host: str) -> str:
    """Read a value of OLLAMA_HOST as its own clients do: scheme, address and port may each be missing.

    What makes no sense, or must not be there, stays as it is, for whoever judges the address.
    """
    scheme, found, rest = host.strip().partition("://")
    if not found:
        scheme, rest = "http", host.strip().removeprefix("//")
    usual = {"http": 80, "https": 443}[scheme] if found and scheme in ("http", "https") else OLLAMA_PORT
    place, slash, path = rest.partition("/")
    if "@" in place:
        return f"{scheme}://{rest}"
    name, port = _split_port(place)
    name = _EVERYWHERE.get(name, name)
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}:{port or usual}{slash}{path}".rstrip("/")


def _split_port(place: str) -> tuple[str, str]:
    """Address and port, which may be no number; either may be empty."""
    try:
        return str(ipaddress.IPv6Address(place.strip("[]"))), ""
    except ValueError:
        name, colon, port = place.rpartition(":")
    return (name.strip("[]"), port) if colon else (place.strip("[]"), "")


def _of_service(name: str, service: Service, environ: Mapping[str, str], change: NamedProvider | None) -> Setup:
    section = change.section if change else ProviderSection()
    url, source = _address(service, environ, section, change)
    variable = next((one for one in service.keys if environ.get(one, "").strip()), None)
    is_set_up = change is not None or variable is not None or bool(_given_address(service, environ))
    endpoint = Endpoint(
        name=name,
        title=service.title,
        base_url=url,
        key=_key_of(section, change, environ) or _own_key(service, environ, variable, url),
        url_source=source,
        vendor=service.vendor,
        context_length=section.context_length,
        is_vendors_own=service.type == name and section.base_url is None and section.type in (None, service.type),
        problem=(change.problem if change else "") or _problem_of(service.title, url, source),
    )
    return Setup(
        endpoint=endpoint,
        type=section.type or service.type,
        models=service.models,
        is_set_up=is_set_up,
        is_shown=is_set_up or not service.is_gateway,
        key_variables=(*service.keys, *_named_variable(section)),
        has_key_command=section.api_key_command is not None,
    )


def _address(
    service: Service, environ: Mapping[str, str], section: ProviderSection, change: NamedProvider | None
) -> tuple[str, str]:
    """The base URL, and what a person has to look at when it is wrong."""
    if section.base_url is not None and change is not None:
        return _completed(section.base_url, section.type or service.type), f"base_url of {change.place}"
    given = _given_address(service, environ)
    if not given:
        return service.base_url, service.url_variable
    if service.url_variable == "OLLAMA_HOST":
        return ollama_url(given), service.url_variable
    url = given.rstrip("/")
    return (_with_v1(url) if service.url_variable in _NEEDS_V1 else url), service.url_variable


def _given_address(service: Service, environ: Mapping[str, str]) -> str:
    return environ.get(service.url_variable, "").strip() if service.url_variable else ""


def _own_key(service: Service, environ: Mapping[str, str], variable: str | None, url: str) -> Key:
    is_needed = not service.is_local and not Endpoint("", "", url).is_local
    source = variable or (service.keys[0] if service.keys else "")
    return Key(environ.get(variable, "") if variable else "", source=source, is_needed=is_needed)


def _of_named(one: NamedProvider, environ: Mapping[str, str]) -> Setup:
    section, title = one.section, f"provider {one.name}"
    kind = section.type or "openai-compatible"
    vendor = SERVICES.get(kind, Service(kind, title))  # the service of the same name as the type, where there is one
    url = _completed(section.base_url or vendor.base_url, kind)
    source = f"base_url of {one.place}"
    is_vendors_own = url == vendor.base_url and bool(vendor.keys) and not vendor.is_local
    endpoint = Endpoint(
        name=one.name,
        title=title,
        base_url=url,
        key=_key_of(section, one, environ) or Key(source=f"api_key_env of {one.place}", is_needed=is_vendors_own),
        url_source=source,
        vendor=DIALECTS[kind].vendor,
        context_length=section.context_length,
        problem=one.problem or _missing(one, url) or _problem_of(title, url, source),
    )
    return Setup(
        endpoint=endpoint,
        type=kind,
        models=vendor.models if is_vendors_own or kind == "scripted" else (),
        is_named=True,
        is_set_up=True,
        key_variables=_named_variable(section),
        has_key_command=section.api_key_command is not None,
    )


def _key_of(section: ProviderSection, one: NamedProvider | None, environ: Mapping[str, str]) -> Key | None:
    if one is None:
        return None
    if section.api_key_command is not None:
        return Key(command=section.api_key_command, source=f"api_key_command of {one.place}")
    if section.api_key_env is not None:
        return Key(environ.get(section.api_key_env, ""), source=section.api_key_env)
    return None


def _named_variable(section: ProviderSection) -> tuple[str, ...]:
    return () if section.api_key_env is None else (section.api_key_env,)


def _missing(one: NamedProvider, url: str) -> str:
    if one.section.type is None:
        return f"{one.place} cannot be used: it needs a type, such as openai-compatible."
    if not url and one.section.type != "scripted":
        return f"{one.place} cannot be used: it needs a base_url, such as http://127.0.0.1:8080/v1."
    return ""


def _problem_of(title: str, url: str, source: str) -> str:
    """What is wrong with an address beyond its form, which `Endpoint` judges."""
    try:
        has_password = "@" in urlsplit(url).netloc
    except ValueError:
        return ""
    if not has_password:
        return ""
    return f"{title} cannot be used: {source} holds a name or password; give the key by api_key_env in its place."


def _completed(base_url: str, kind: ProviderType) -> str:
    """An address of the settings. People leave out the `/v1` of a server on their machine, which all of them have."""
    url = base_url.strip().rstrip("/")
    return _with_v1(url) if kind in ("openai-compatible", "lmstudio") and Endpoint("", "", url).is_local else url


def _with_v1(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return url if parts.path.strip("/") else urlunsplit(parts._replace(path="/v1"))


def notices(setups: Sequence[Setup]) -> Iterator[str]:
    yield from (mistake for setup in setups if (mistake := setup.mistake()) is not None)
    yield from (notice for setup in setups if (notice := setup.notice()) is not None)
