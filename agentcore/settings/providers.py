"""Providers and short names of models, as the user's own settings file has them.

A section or a name that is wrong is told, and the rest works without it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agentcore.settings.names import did_you_mean, shown_name

ProviderType = Literal["anthropic", "openai", "openai-compatible", "gemini", "ollama", "lmstudio", "scripted"]

_Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")  # capitals alone: whoever puts the key itself here is told so
_SECRET_KEYS = frozenset({"api_key", "apikey", "key", "token", "auth_token", "password", "secret"})


class ProviderSection(BaseModel):
    """`[providers.<name>]` as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    type: ProviderType | None = None
    """How it talks; may be left out where the name is that of a built-in provider."""
    base_url: _Text | None = None
    api_key_env: _Text | None = None
    """Name of the environment variable that holds the key."""
    api_key_command: _Text | None = None
    """Shell line that prints the key."""
    context_length: Annotated[int, Field(gt=0)] | None = None
    """Tokens."""


@dataclass(frozen=True, slots=True)
class NamedProvider:
    """A provider that the user set up, or a built-in one that he changed."""

    name: str
    section: ProviderSection = field(default_factory=ProviderSection)
    problem: str = ""
    """Why it cannot be used, with the place in the file; empty when nothing is wrong."""

    @property
    def place(self) -> str:
        return f"[providers.{self.name}] in settings.toml"


@dataclass(frozen=True, slots=True)
class ModelNames:
    """Who can be asked for a model, and what models are called."""

    providers: tuple[NamedProvider, ...] = ()
    """In file order."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of models."""


def read_names(data: Mapping[str, Any]) -> tuple[ModelNames, list[str]]:
    """The providers and short names of a file, and what of them has no effect: a sentence each."""
    notices: list[str] = []
    sections = _table(data, "providers", notices)
    aliases = _aliases(_table(data, "aliases", notices), notices)
    return ModelNames(tuple(_named(name, section) for name, section in sections.items()), aliases), notices


def _table(data: Mapping[str, Any], key: str, notices: list[str]) -> dict[str, Any]:
    table = data.get(key, {})
    if isinstance(table, dict):
        return table
    notices.append(f"`{key}` in settings.toml is no table and has no effect: write [{key}.<name>] or [{key}].")
    return {}


def _aliases(table: dict[str, Any], notices: list[str]) -> dict[str, str]:
    aliases = {}
    for name, model in table.items():
        if _NAME.fullmatch(name) and isinstance(model, str) and "/" in model.strip("/"):
            aliases[name] = model
        else:
            notices.append(
                f'`{shown_name(name)}` in [aliases] of settings.toml has no effect: write name = "provider/model".'
            )
    return aliases


def _named(name: str, section: object) -> NamedProvider:
    shown = NamedProvider(shown_name(name))
    if not _NAME.fullmatch(name):
        return _broken(shown, "a provider's name has letters, digits, dots, dashes and underscores, at most 40")
    if not isinstance(section, dict):
        return _broken(shown, "it is no table")
    if secret := next((key for key in section if key.lower() in _SECRET_KEYS), None):
        advice = 'put the key into an environment variable and name it, as in api_key_env = "LAB_KEY"'
        return _broken(shown, f"`{secret}` is refused, keys are not kept in files: {advice}")
    try:
        parsed = ProviderSection.model_validate(section)
    except ValidationError as error:
        return _broken(shown, _told(error))
    problem = _problem(parsed)
    return _broken(shown, problem) if problem else NamedProvider(name, parsed)


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    first = error.errors(include_input=False, include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"`{shown_name(key)}` is no key of it{did_you_mean(key, tuple(ProviderSection.model_fields))}"
    return f"`{key}`: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _problem(section: ProviderSection) -> str | None:
    variable = section.api_key_env
    if variable is not None and not _VARIABLE.fullmatch(variable):
        return "api_key_env is the name of an environment variable, in capitals, not the key itself"
    if variable is not None and section.api_key_command is not None:
        return "give one of api_key_env and api_key_command"
    return None


def _broken(provider: NamedProvider, problem: str) -> NamedProvider:
    return NamedProvider(provider.name, problem=f"{provider.place} cannot be used: {problem}.")
