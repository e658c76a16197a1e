"""Language servers of the user's: `[lsp.<name>]` in his own settings. Values only."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agentcore.languages import LanguageSetup
from agentcore.settings.documents import Document
from agentcore.settings.names import did_you_mean, shown_name

_Text = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
_Suffix = Annotated[str, StringConstraints(pattern=r"^\.[^/\s]{1,32}$")]


class LanguageSection(BaseModel):
    """`[lsp.<name>]` as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    enabled: bool = True
    """False: no server for this language, not the built-in one either."""
    command: Annotated[list[_Text], Field(min_length=1)] | None = None
    suffixes: list[_Suffix] = []
    markers: list[_Text] = []
    """Files that make a folder a project of this language."""
    env: dict[str, str] = {}
    options: dict[str, Any] = {}
    """`initializationOptions` of the protocol."""
    settings: dict[str, Any] = {}
    """What the server is told when it asks for its configuration, by section."""


def read_language_servers(entries: object, document: Document) -> tuple[list[LanguageSetup], list[str]]:
    """The servers of a table, and a sentence for each that cannot be used."""
    if not isinstance(entries, dict):
        return [], [f"`lsp` in {document.place('lsp')} is no table and has no effect: write [lsp.<name>]."]
    setups, notices = [], []
    for name, entry in entries.items():
        try:
            setups.append(_read(name, entry))
        except ValueError as error:
            place = document.place("lsp", name)
            notices.append(f"[lsp.{shown_name(name)}] in {place} cannot be used: {error}.")
    return setups, notices


def _read(name: str, entry: object) -> LanguageSetup:
    if not isinstance(entry, dict):
        raise ValueError("it is no table")
    try:
        parsed = LanguageSection.model_validate(entry)
    except ValidationError as error:
        raise ValueError(_told(error)) from None
    if not parsed.enabled:
        return LanguageSetup(name, (), {})
    if parsed.command is None or not parsed.suffixes:
        raise ValueError('it needs a `command` (a list) and `suffixes` (such as [".zig"])')
    return LanguageSetup(
        language=name,
        argv=tuple(parsed.command),
        suffixes=dict.fromkeys(parsed.suffixes, name),
        markers=tuple(parsed.markers),
        environ=parsed.env,
        options=parsed.options,
        settings=parsed.settings,
    )


def _told(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    key = ".".join(shown_name(str(part)) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"`{key}` is no key of it{did_you_mean(key, tuple(LanguageSection.model_fields))}"
    if first["type"] == "string_pattern_mismatch":
        return 'a suffix begins with a dot, as in [".zig"]'
    return f"`{key}`: {first['msg'][:1].lower()}{first['msg'][1:]}"
