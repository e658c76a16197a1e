"""The questions that sessions ask about code, put to one running server; answers in our own words and places."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from agentcore.languages import CodeAction, CodeFile, FileRewrite, Place, Problem, Spot, Symbol, Texts
from agentcore.lsp import answers
from agentcore.lsp.answers import RawPlace, RawProblem
from agentcore.lsp.positions import Lines, Overlap, edited, wire_position
from agentcore.lsp.server import LanguageServer
from agentcore.ports.tools import ToolError
from agentcore.within import one_line

MAX_LINE_CHARS = 300
MAX_READ_FILES = 200
"""Of one answer, to show their lines; places in further files come without."""
MAX_REWRITTEN_FILES = 100
MAX_ACTIONS = 30
MAX_RESOLVED = 10
"""Actions whose edit is asked for one by one."""


async def definition(server: LanguageServer, spot: Spot) -> list[Place]:
    return await _places(server, spot, "textDocument/definition")


async def references(server: LanguageServer, spot: Spot) -> list[Place]:
    return await _places(server, spot, "textDocument/references", context={"includeDeclaration": True})


async def _places(server: LanguageServer, spot: Spot, method: str, **more: Any) -> list[Place]:
    answer = await server.ask(method, {**await _at(server, spot), **more})
    found = list(answers.places_in(answer))
    return sorted(await _seen(server, spot.file.texts, found), key=lambda place: (place.path, place.line, place.column))


async def hover(server: LanguageServer, spot: Spot) -> str:
    return answers.hover_in(await server.ask("textDocument/hover", await _at(server, spot)))


async def symbols(server: LanguageServer, file: CodeFile) -> list[Symbol]:
    document = await server.show(file)
    answer = await server.ask("textDocument/documentSymbol", {"textDocument": {"uri": document.path.as_uri()}})
    return await _named(server, file.texts, list(answers.symbols_in(answer, file.real)))


async def workspace_symbols(server: LanguageServer, file: CodeFile, query: str) -> list[Symbol]:
    await server.show(file)  # some servers know a project only when one of its files is open
    answer = await server.ask("workspace/symbol", {"query": query})
    return await _named(server, file.texts, list(answers.symbols_in(answer)))


async def problems(server: LanguageServer, file: CodeFile, raw: Sequence[RawProblem]) -> list[Problem]:
    """Problems of a file that were heard, with their places."""
    places = await _seen(server, file.texts, [RawPlace(file.real, one.position) for one in raw])
    pairs = zip(raw, places, strict=True)
    return [Problem(one.severity, place, one.message, one.source) for one, place in pairs]


async def rename(server: LanguageServer, spot: Spot, new_name: str) -> list[FileRewrite]:
    answer = await server.ask("textDocument/rename", {**await _at(server, spot), "newName": new_name})
    return list(await _rewrites(server, spot.file.texts, answer))


async def code_actions(server: LanguageServer, spot: Spot) -> list[CodeAction]:
    """What is offered for the line of a spot."""
    document = await server.check(spot.file)
    lines = Lines(document.text, server.capabilities.encoding)
    demand_line(lines, spot)
    span = {"start": lines.to_wire(spot.line, 1), "end": lines.to_wire(spot.line, len(lines.line(spot.line)) + 1)}
    wire = [dict(one.wire) for one in document.problems if wire_position(one.position)[0] == spot.line - 1]
    context = {"diagnostics": wire, "triggerKind": 1}
    params = {"textDocument": {"uri": document.path.as_uri()}, "range": span, "context": context}
    offered = list(answers.dicts(await server.ask("textDocument/codeAction", params)))[:MAX_ACTIONS]
    return [await _action(server, spot.file.texts, one, index) for index, one in enumerate(offered)]


async def _action(server: LanguageServer, texts: Texts, one: Mapping[str, Any], index: int) -> CodeAction:
    edit = one.get("edit")
    if edit is None and "data" in one and index < MAX_RESOLVED and _can_resolve(server):
        try:
            whole = await server.ask("codeAction/resolve", dict(one), capability="textDocument/codeAction")
        except ToolError:
            whole = None
        edit = whole.get("edit") if isinstance(whole, Mapping) else None
    try:
        rewrites = tuple(await _rewrites(server, texts, edit))
    except ToolError:
        rewrites = ()
    return CodeAction(one_line(str(one.get("title", ""))), one_line(str(one.get("kind") or "")), rewrites)


def _can_resolve(server: LanguageServer) -> bool:
    options = server.capabilities.options("textDocument/codeAction")
    return isinstance(options, Mapping) and options.get("resolveProvider") is True


async def _at(server: LanguageServer, spot: Spot) -> dict[str, Any]:
    """The part of a question that says where. Raises: ToolError."""
    document = await server.show(spot.file)
    lines = Lines(document.text, server.capabilities.encoding)
    demand_line(lines, spot)
    position = lines.to_wire(spot.line, spot.column)
    return {"textDocument": {"uri": document.path.as_uri()}, "position": position}


def demand_line(lines: Lines, spot: Spot) -> None:
    """Raises: ToolError where a file has no such line."""
    if not 1 <= spot.line <= lines.count:
        raise ToolError(f"line {spot.line} is past the end: the file has {lines.count} lines")


async def _named(server: LanguageServer, texts: Texts, raw: Sequence[answers.RawSymbol]) -> list[Symbol]:
    places = await _seen(server, texts, [one.place for one in raw])
    pairs = zip(raw, places, strict=True)
    return [Symbol(one.name, one.kind, place, one.container, one.depth) for one, place in pairs]


async def _seen(server: LanguageServer, texts: Texts, raw: Sequence[RawPlace]) -> list[Place]:
    """Places as the session may see them, in the same order."""
    encoding = server.capabilities.encoding
    return await to_thread.run_sync(_look_up, texts, raw, encoding, abandon_on_cancel=True)


def _look_up(texts: Texts, raw: Sequence[RawPlace], encoding: str) -> list[Place]:
    known = _lines_of(texts, (one.path for one in raw), encoding)
    return [_place(one, known.get(one.path)) for one in raw]


def _lines_of(texts: Texts, paths: Iterable[Path], encoding: str) -> dict[Path, Lines]:
    known = {}
    for path in list(dict.fromkeys(paths))[:MAX_READ_FILES]:
        text = texts(path)
        if text is not None:
            known[path] = Lines(text, encoding)
    return known


def _place(raw: RawPlace, lines: Lines | None) -> Place:
    if lines is None:
        line, character = wire_position(raw.position)
        return Place(raw.path, line + 1, character + 1)
    line, column = lines.from_wire(raw.position)
    return Place(raw.path, line, column, lines.line(line).strip()[:MAX_LINE_CHARS])


async def _rewrites(server: LanguageServer, texts: Texts, edit: object) -> Sequence[FileRewrite]:
    """Raises: ToolError for an edit that cannot be made of text edits in files that the session may see."""
    encoding = server.capabilities.encoding
    return await to_thread.run_sync(_rewritten, texts, edit, encoding, abandon_on_cancel=True)


def _rewritten(texts: Texts, edit: object, encoding: str) -> list[FileRewrite]:
    try:
        by_file = answers.edits_in(edit)
    except answers.Unsupported as error:
        raise ToolError(f"this edit is not only of texts ({error}): make it with other tools") from None
    if len(by_file) > MAX_REWRITTEN_FILES:
        raise ToolError(f"this would change {len(by_file)} files; {MAX_REWRITTEN_FILES} are shown at most")
    found = []
    for path, edits in sorted(by_file.items()):
        text = texts(path)
        if text is None:
            raise ToolError("this would change a file outside of the project, or one that is closed to tools")
        try:
            after = edited(Lines(text, encoding), edits)
        except Overlap:
            raise ToolError("the language server gave an edit that makes no sense: try again") from None
        if after != text:
            found.append(FileRewrite(path, text, after))
    return found
