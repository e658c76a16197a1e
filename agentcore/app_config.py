"""What the process was started with, and what that makes of the user's settings."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentcore.errors import BadRequest
from agentcore.providers.registry import Providers
from agentcore.session import Settings
from agentcore.settings.choices import BadChoice, check
from agentcore.settings.effective import COMMAND_LINE, DEFAULT, Effective

_FROM_SETTINGS = frozenset({"mode", "effort", "unattended", "max_turns"})
"""Choices that a session keeps once it has begun."""


@dataclass(frozen=True, slots=True)
class AppConfig:
    """Where the process works and what it may do."""

    roots: tuple[Path, ...]
    """Resolved; the first is the default working folder of a session."""
    data_dir: Path
    state_dir: Path
    config_dir: Path
    model: str | None = None
    """Default for sessions that name none; None: what the user's settings say, else whatever is ready."""
    fallbacks: tuple[str, ...] = ()
    """Models (`provider/model`) that stand in for a session's own one when it fails, in order of preference;
    none: those of the user's settings."""
    defaults: Settings = field(default_factory=Settings)
    """For brand-new sessions; the user's settings fill in what is not set here."""
    allow_yolo: bool = False
    debug: bool = False
    """Keep what is sent to models, of all sessions that do not say otherwise."""
    hidden: tuple[Path, ...] = ()
    """Further files and folders that are closed to every tool of the model."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    home: Path = field(default_factory=Path.home)
    """Of the user: where his credentials lie, and what he wrote for other agents."""


def completed(config: AppConfig, providers: Providers, everywhere: Effective) -> AppConfig:
    """Fill in what the settings say where nothing was chosen here. Raises: BadRequest."""
    model, fallbacks = models_of(providers, everywhere)
    return replace(config, model=model, fallbacks=fallbacks, defaults=defaults_of(config, everywhere))


def models_of(providers: Providers, effective: Effective) -> tuple[str | None, tuple[str, ...]]:
    """The full names of the model and of those that stand in for it. Raises: BadRequest."""
    chosen, sources = effective.choices, effective.sources
    with _standing_in(sources["model"], "model"):
        model = None if chosen.model is None else providers.full_name(chosen.model)
    with _standing_in(sources["fallbacks"], "fallbacks"):
        return model, tuple(map(providers.full_name, chosen.fallbacks))


def given_in(config: AppConfig) -> dict[str, Any]:
    """What was chosen here, and so wins over every file. Raises: BadRequest."""
    given: dict[str, Any] = {name: getattr(config.defaults, name) for name in _FROM_SETTINGS & _fields_set(config)}
    given |= {} if config.model is None else {"model": config.model}
    given |= {"fallbacks": config.fallbacks} if config.fallbacks else {}
    for key, value in given.items():
        try:
            check(key, value)
        except BadChoice as error:
            raise BadRequest(f"{key} is wrong: {error}.") from None
    return given


def defaults_of(config: AppConfig, effective: Effective) -> Settings:
    """What a new session starts from. What was chosen here stands in `effective` already, as far as settings know it:
    `config.defaults` may by now hold what the user's file says, which is weaker than that for one project."""
    chosen = effective.choices.model_dump(include={key for key in _FROM_SETTINGS if effective.sources[key] != DEFAULT})
    given = {name: getattr(config.defaults, name) for name in _fields_set(config) - _FROM_SETTINGS}
    return Settings(**chosen | given)


def _fields_set(config: AppConfig) -> set[str]:
    return config.defaults.model_fields_set


@contextmanager
def _standing_in(source: str, key: str) -> Iterator[None]:
    """Say where a name stands that leads nowhere."""
    try:
        yield
    except BadRequest as error:
        raise BadRequest(str(error) if source == COMMAND_LINE else f"`{key}` in {source}: {error}") from None
