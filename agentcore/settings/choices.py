"""The typed model of what can be chosen with a single value: the model, the mode, the budget, and so on.

A choice is named by its dotted key (`sandbox.enabled`), in files, in notices and, as `AGENTCORE_SANDBOX_ENABLED`, in
the environment. What decides how a session works has to be right: a misspelt mode must not become a laxer one.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError

from agentcore.events import CompactionStrategy, Mode, Unattended
from agentcore.settings.names import nearest

Effort = Literal["low", "medium", "high", "xhigh", "max"]
GuardMode = Literal["off", "redact", "reject"]

_Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
_Bool = Annotated[bool, Strict()]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Amount = Annotated[float, Strict(), Field(gt=0)]
PREFIX = "AGENTCORE_"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Sandbox(_Section):
    """`[sandbox]`: how commands are confined."""

    enabled: _Bool = True
    network: _Bool = False
    allowed_domains: tuple[_Text, ...] = ()
    auto_allow: _Bool = False
    """Commands that are confined run without asking."""
    hooks: _Bool = False
    """Commands of hooks are confined as well."""


class Budget(_Section):
    """`[budget]`: what a session with its subagents may use. None: no limit."""

    session_usd: _Amount | None = None
    session_tokens: _Count | None = None
    session_time_s: _Amount | None = None
    session_tool_calls: _Count | None = None
    warn_at: Annotated[float, Strict(), Field(gt=0, le=1)] = 0.8  # the contract's
    """The part of a limit at which a person is told."""


class Guard(_Section):
    """`[guard]`: what becomes of personal data and secrets in what enters a transcript."""

    mode: GuardMode = "off"


class Choices(_Section):
    """Every choice with its default."""

    model: str | None = None
    """`provider/model`, or a short name."""
    mode: Mode = "default"
    unattended: Unattended = "wait"
    effort: Effort | None = None
    fallbacks: tuple[str, ...] = ()
    """Models that stand in for it, in order of preference."""
    max_turns: _Count | None = None
    durability: Literal["full", "os"] = "full"
    """What is acknowledged survives: a power failure, or (`os`) the end of the server alone."""
    compaction: CompactionStrategy = "summarize"
    """What takes the place of a conversation that has become too long."""
    auto_compact: _Bool = True
    """Whether that happens by itself."""
    # below, nothing would be left to work with; above, no room for the summary itself
    compact_at: Annotated[float, Strict(), Field(ge=0.1, le=0.95)] = 0.8  # the contract's
    """The part of the context window above which it does."""
    hook_timeout_s: Annotated[float, Strict(), Field(gt=0, le=3600)] = 60.0  # the contract's
    """Of hooks that set none."""
    disable_all_hooks: _Bool = False
    import_allow: _Bool = False
    """What `~/.claude/settings.json` allows counts as well."""
    sandbox: Sandbox = Sandbox()
    budget: Budget = Budget()
    guard: Guard = Guard()


SECTIONS: Mapping[str, type[_Section]] = {"sandbox": Sandbox, "budget": Budget, "guard": Guard}


def _keys() -> Iterator[str]:
    for name in Choices.model_fields:
        section = SECTIONS.get(name)
        yield from [name] if section is None else [f"{name}.{one}" for one in section.model_fields]


KEYS: tuple[str, ...] = tuple(_keys())
"""The dotted key of every choice."""
VARIABLES: Mapping[str, str] = {f"{PREFIX}{key.replace('.', '_').upper()}": key for key in KEYS}
"""Environment variable to key."""


class BadChoice(ValueError):
    """The value cannot be; the sentence says why, without repeating it."""


def check(key: str, value: object) -> Any:
    """The value of a choice as `Choices` holds it. Raises: BadChoice."""
    try:
        return getitem(made({key: value}), key)
    except ValidationError as error:
        raise BadChoice(_told(error)) from None


def made(values: Mapping[str, object]) -> Choices:
    """The choices with these values (by dotted key), the rest by default. Raises: ValidationError."""
    whole: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            whole.setdefault(section, {})[name] = value
        else:
            whole[key] = value
    return Choices.model_validate(whole)


def getitem(choices: Choices, key: str) -> Any:
    """The value of a choice by its dotted key."""
    section, dot, name = key.partition(".")
    return getattr(getattr(choices, section), name) if dot else getattr(choices, key)


def from_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The choices that environment variables make, and a sentence for each that was probably meant to.

    An empty variable chooses nothing. Lists are separated by commas. Raises: BadChoice with the variable's name.
    """
    chosen: dict[str, Any] = {}
    for variable, key in VARIABLES.items():
        if text := environ.get(variable, "").strip():
            try:
                chosen[key] = _from_text(key, text)
            except BadChoice as error:
                raise BadChoice(f"{variable} is wrong: {error}. Mend it.") from None
    return chosen, [*_mistyped(environ)]


def _from_text(key: str, text: str) -> Any:
    if isinstance(getitem(Choices(), key), tuple):
        return check(key, [one.strip() for one in text.split(",") if one.strip()])
    value: object = text
    with suppress(ValueError):
        value = json.loads(text)
    return check(key, value if isinstance(value, bool | int | float) else text)


def _mistyped(environ: Mapping[str, str]) -> Iterator[str]:
    known = tuple(variable.removeprefix(PREFIX).lower() for variable in VARIABLES)
    for variable in environ:
        word = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and word not in known and (meant := nearest(word, known)):
            yield f"The variable {variable[:80]} has no effect (did you mean {PREFIX}{meant.upper()}?)."


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    first = error.errors(include_input=False, include_url=False)[0]
    if first["type"] == "tuple_type":
        return 'it must be a list, such as ["openai/gpt-5.5"]'
    return first["msg"][:1].lower() + first["msg"][1:]
