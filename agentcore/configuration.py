"""What the user chose once for all sessions: his model, its stand-ins, short names, and providers of his own.

From `<config dir>/settings.toml` alone, never from a repository; the command line wins over it. What decides how a
session works has to be right, or nothing starts: a misspelt mode must not become a laxer one. A provider's section or
a short name that is wrong is told, and the rest works without it. No sentence repeats a value: it may be a key.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, TypeAdapter, ValidationError

from agentcore.errors import Unprocessable
from agentcore.events import CompactionStrategy, Mode
from agentcore.folders import read_regular

ProviderType = Literal["anthropic", "openai", "openai-compatible", "gemini", "ollama", "lmstudio", "scripted"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]

MAX_FILE_BYTES = 1024 * 1024
MAX_NOTICES = 20

V = TypeVar("V")
_Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")  # capitals alone: whoever puts the key itself here is told so
_SECRET_KEYS = frozenset({"api_key", "apikey", "key", "token", "auth_token", "password", "secret"})
_LINE = re.compile(r"at line (\d+)")
_OF_OTHERS = frozenset({"permissions"})
"""Sections of the same file that another room reads."""


class ProviderSection(BaseModel):
    """`[providers.<name>]` as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

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
class Configuration:
    """The file; empty where there is none."""

    model: str | None = None
    """`provider/model`, or a short name."""
    effort: Effort | None = None
    mode: Mode | None = None
    fallbacks: tuple[str, ...] = ()
    compaction: CompactionStrategy = "summarize"
    """What takes the place of a conversation that has become too long."""
    auto_compact: bool = True
    """Whether that happens by itself."""
    compact_at: float = 0.8  # the contract's
    """The part of the context window above which it does."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Short names of models."""
    providers: tuple[NamedProvider, ...] = ()
    """In file order."""
    notices: tuple[str, ...] = ()
    """What has no effect, and why: a sentence each."""


def read_configuration(file: Path) -> Configuration:
    """Read the user's choices; none when there is no file. Raises: Unprocessable with the line or the key."""
    try:
        document = tomllib.loads(read_regular(file, MAX_FILE_BYTES).decode())
    except FileNotFoundError:
        return Configuration()
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        place = f"at line {line[1]}" if line else "at its end"
        raise Unprocessable(f"{file.name} is no TOML {place}. Mend it.") from None
    except RecursionError:
        raise Unprocessable(f"{file.name} is nested too deeply. Mend it.") from None
    except (OSError, ValueError) as error:
        raise Unprocessable(f"{file.name} cannot be read: {_why(error)}. Mend it.") from None
    return _parsed(document)


def _why(error: OSError | ValueError) -> str:
    """Its words where they are ours or the system's, else its kind: what a parser says may quote the file."""
    if type(error) is ValueError:
        return str(error)
    return str(error.strerror) if isinstance(error, OSError) else type(error).__name__


def _parsed(document: dict[str, Any]) -> Configuration:
    notices: list[str] = []
    sections = _table(document, "providers", notices)
    return Configuration(
        model=_checked(_MODEL, document, "model"),
        effort=_checked(_EFFORT, document, "effort"),
        mode=_checked(_MODE, document, "mode"),
        fallbacks=_checked(_FALLBACKS, document, "fallbacks") or (),
        **_compaction(document),
        aliases=_aliases(_table(document, "aliases", notices), notices),
        providers=tuple(_named(name, section) for name, section in sections.items()),
        notices=_few([*notices, *_unknown(document)]),
    )


def _few(notices: list[str]) -> tuple[str, ...]:
    """Not more than a person reads."""
    if len(notices) <= MAX_NOTICES:
        return tuple(notices)
    return (*notices[:MAX_NOTICES], f"And {len(notices) - MAX_NOTICES} more like these in settings.toml.")


_MODEL: TypeAdapter[str] = TypeAdapter(_Text)
_EFFORT: TypeAdapter[Effort] = TypeAdapter(Effort)
_MODE: TypeAdapter[Mode] = TypeAdapter(Mode)
_FALLBACKS: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[_Text, ...])
_COMPACTION: Mapping[str, TypeAdapter[Any]] = {
    "compaction": TypeAdapter(CompactionStrategy),
    "auto_compact": TypeAdapter(Annotated[bool, Strict()]),
    # below, nothing would be left to work with; above, no room for the summary itself
    "compact_at": TypeAdapter(Annotated[float, Field(ge=0.1, le=0.95)]),
}
_KEYS = ("model", "effort", "mode", "fallbacks", *_COMPACTION, "aliases", "providers")


def _compaction(document: dict[str, Any]) -> dict[str, Any]:
    """What the file says about compaction; the rest keeps its default."""
    return {key: _checked(kind, document, key) for key, kind in _COMPACTION.items() if key in document}


def _checked(kind: TypeAdapter[V], document: dict[str, Any], key: str) -> V | None:
    if key not in document:
        return None
    try:
        return kind.validate_python(document[key])
    except ValidationError as error:
        raise Unprocessable(f"`{key}` in settings.toml is wrong: {_told(error)}. Mend it.") from None


def _table(document: dict[str, Any], key: str, notices: list[str]) -> dict[str, Any]:
    table = document.get(key, {})
    if isinstance(table, dict):
        return table
    notices.append(f"`{key}` in settings.toml is no table and has no effect: write [{key}.<name>] or [{key}].")
    return {}


def _unknown(document: dict[str, Any]) -> list[str]:
    unknown = [key for key in document if key not in _KEYS and key not in _OF_OTHERS]
    return [f"`{_shown(key)}` in settings.toml has no effect in this version{_nearest(key, _KEYS)}." for key in unknown]


def _aliases(table: dict[str, Any], notices: list[str]) -> dict[str, str]:
    aliases = {}
    for name, model in table.items():
        if _NAME.fullmatch(name) and isinstance(model, str) and "/" in model.strip("/"):
            aliases[name] = model
        else:
            notices.append(
                f'`{_shown(name)}` in [aliases] of settings.toml has no effect: write name = "provider/model".'
            )
    return aliases


def _named(name: str, section: object) -> NamedProvider:
    shown = NamedProvider(_shown(name))
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


def _problem(section: ProviderSection) -> str | None:
    variable = section.api_key_env
    if variable is not None and not _VARIABLE.fullmatch(variable):
        return "api_key_env is the name of an environment variable, in capitals, not the key itself"
    if variable is not None and section.api_key_command is not None:
        return "give one of api_key_env and api_key_command"
    return None


def _broken(provider: NamedProvider, problem: str) -> NamedProvider:
    return NamedProvider(provider.name, problem=f"{provider.place} cannot be used: {problem}.")


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    first = error.errors(include_input=False, include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"`{_shown(key)}` is no key of it{_nearest(key, tuple(ProviderSection.model_fields))}"
    if first["type"] == "tuple_type":
        return 'it must be a list, such as ["openai/gpt-5.2"]'
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"`{key}`: {message}" if key else message


def _nearest(key: str, known: tuple[str, ...]) -> str:
    found = nearest(key, known)
    return f" (did you mean `{found}`?)" if found else ""


def nearest(word: str, known: tuple[str, ...]) -> str | None:
    """Say which known word was meant by a mistyped one; letters that only changed places come first."""
    word = word.lower()[:80]  # the search takes time by length, and words come from people
    near = get_close_matches(word, known, 1)
    swapped = [] if word in near else [one for one in known if sorted(one) == sorted(word)]
    return next(iter(swapped or near), None)


def _shown(name: str) -> str:
    """A name for people: what could be mistaken for something else on a terminal is a question mark."""
    return re.sub(r"[^\w.-]", "?", name)[:40]
