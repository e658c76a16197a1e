"""What servers answer, read with patience: the shapes that the protocol allows, and nothing that is no such shape.

Positions stay as they came; `found` makes places of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from agentcore.languages import Severity
from agentcore.within import one_line, plain_text

MAX_RESULTS = 1000
"""Of any list; a tool shows a few hundred at most."""
MAX_TEXT_CHARS = 20_000
MAX_MESSAGE_CHARS = 400
_MAX_DEPTH = 16

SEVERITIES: dict[int | None, Severity] = {None: "error", 1: "error", 2: "warning"}
"""Information and hints are not worth a model's attention."""

KINDS = (
    *("symbol", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor"),
    *("enum", "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object"),
    *("key", "null", "enum_member", "struct", "event", "operator", "type_parameter"),
)
"""By the number that the protocol gives them."""


@dataclass(frozen=True, slots=True)
class RawPlace:
    path: Path
    position: Any
    """Of its beginning, in the server's units."""


@dataclass(frozen=True, slots=True)
class RawSymbol:
    name: str
    kind: str
    place: RawPlace
    container: str
    depth: int


@dataclass(frozen=True, slots=True)
class RawProblem:
    severity: Severity
    position: Any
    message: str
    source: str
    wire: Mapping[str, Any]
    """As it came: what a request for code actions hands back."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for the same problem on another line."""
        return self.severity, self.source, self.message


def path_of(uri: object) -> Path | None:
    """The file that a URI names; None for anything else."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
        path = Path(unquote_to_bytes(parts.path).decode("utf-8", "surrogateescape"))
    except ValueError:
        return None
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if is_file and path.is_absolute() and "\0" not in str(path) else None


def dicts(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, of a single object, or of nothing; so many at most."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for item in items[:MAX_RESULTS]:
        if isinstance(item, Mapping):
            yield item


def places_in(answer: object) -> Iterator[RawPlace]:
    """Of a Location, a list of them, or a list of LocationLinks; none twice."""
    seen = set()
    for item in dicts(answer):
        path = path_of(item.get("uri", item.get("targetUri")))
        position = _start(item.get("range") or item.get("targetSelectionRange"))
        if path is not None and (key := (path, str(position))) not in seen:
            seen.add(key)
            yield RawPlace(path, position)


def _start(span: object) -> Any:
    return span.get("start") if isinstance(span, Mapping) else None


def hover_in(answer: object) -> str:
    contents = answer.get("contents") if isinstance(answer, Mapping) else None
    items = contents if isinstance(contents, list) else [contents]
    texts = [str(item.get("value", "")) if isinstance(item, Mapping) else item for item in items]
    text = "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
    return plain_text(text[:MAX_TEXT_CHARS])


def symbols_in(answer: object, path: Path | None = None, container: str = "", depth: int = 0) -> Iterator[RawSymbol]:
    """Of DocumentSymbols (of the file at `path`) or SymbolInformation, each before what lies in it."""
    for item in dicts(answer):
        location = item.get("location")
        where = path_of(location.get("uri")) if isinstance(location, Mapping) else path
        span = location.get("range") if isinstance(location, Mapping) else item.get("selectionRange")
        if where is None:
            continue
        name = one_line(str(item.get("name", "")))
        inside = one_line(str(item.get("containerName") or container))
        yield RawSymbol(name, _kind(item.get("kind")), RawPlace(where, _start(span)), inside, depth)
        if depth < _MAX_DEPTH and item.get("children"):
            yield from symbols_in(item["children"], where, name, depth + 1)


def _kind(number: object) -> str:
    return KINDS[number] if isinstance(number, int) and 0 < number < len(KINDS) else KINDS[0]


def problems_in(items: object) -> tuple[RawProblem, ...]:
    """The errors and warnings of a list of diagnostics, errors first, by line."""
    found = []
    for item in dicts(items):
        number = item.get("severity")
        severity = SEVERITIES.get(number) if isinstance(number, int | None) else None
        if severity is not None:
            message = one_line(str(item.get("message", "")), MAX_MESSAGE_CHARS)
            source = one_line(" ".join(str(item[key]) for key in ("source", "code") if _is_name(item.get(key))))
            found.append(RawProblem(severity, _start(item.get("range")), message, source, item))
    return tuple(sorted(found, key=lambda one: (one.severity, _line(one.position))))


def _is_name(value: object) -> bool:
    return isinstance(value, int | str) and value != ""


def _line(position: object) -> int:
    line = position.get("line") if isinstance(position, Mapping) else None
    return line if isinstance(line, int) else 0


class Unsupported(Exception):
    """An edit that does more than change texts; `str(error)` says what."""


def edits_in(edit: object) -> dict[Path, list[Mapping[str, Any]]]:
    """The text edits of a WorkspaceEdit by file. Raises: Unsupported."""
    found: dict[Path, list[Mapping[str, Any]]] = {}
    if not isinstance(edit, Mapping):
        return found
    changes = edit.get("documentChanges")
    if not isinstance(changes, list):
        by_uri = edit.get("changes")
        pairs = by_uri.items() if isinstance(by_uri, Mapping) else ()
        changes = [{"textDocument": {"uri": uri}, "edits": edits} for uri, edits in pairs]
    for change in changes:
        if not isinstance(change, Mapping) or "kind" in change:
            raise Unsupported("it makes, moves or removes files")
        document = change.get("textDocument")
        path = path_of(document.get("uri")) if isinstance(document, Mapping) else None
        if path is None:
            raise Unsupported("it changes something that is no file")
        found.setdefault(path, []).extend(dicts(change.get("edits")))
    return found
