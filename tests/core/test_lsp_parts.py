"""What is known about servers, and what is made of their answers, whatever these are."""

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentcore.lsp import answers, room
from agentcore.lsp.answers import RawPlace, RawProblem, Unsupported
from agentcore.lsp.documents import Documents
from agentcore.lsp.known import (
    KNOWN,
    LanguageSetup,
    Missing,
    merged,
    options_of,
    program_of,
    root_of,
    section_of,
    settings_of,
)
from agentcore.lsp.pipes import ServerProcess
from agentcore.lsp.positions import Lines, wire_position
from agentcore.lsp.registrations import Capabilities
from agentcore.lsp.rpc import Connection, Unknown
from agentcore.lsp.server import LanguageServer
from agentcore.lsp.silence import MAX_WAITS, Silence

SETUPS = {setup.language: setup for setup in KNOWN}
PYTHON, TYPESCRIPT = SETUPS["python"], SETUPS["typescript"]

# --- which server -------------------------------------------------------------------------------------------------


def test_the_known_servers() -> None:
    assert {setup.server: sorted(setup.suffixes)[0] for setup in KNOWN} == {
        "pyright-langserver": ".py",
        "typescript-language-server": ".cjs",
        "gopls": ".go",
        "rust-analyzer": ".rs",
        "clangd": ".c",
    }


def test_the_users_own_come_first_and_replace_those_of_their_name() -> None:
    own = LanguageSetup("python", ("mine",), {".py": "python"})
    lua = LanguageSetup("lua", ("lua-ls",), {".lua": "lua"})
    assert [setup.server for setup in merged((own, lua))] == [
        "mine",
        "lua-ls",
        "typescript-language-server",
        "gopls",
        "rust-analyzer",
        "clangd",
    ]


@pytest.mark.parametrize(
    ("made", "file", "root"),
    [
        ((".git/", "pyproject.toml"), "src/a.py", "."),
        ((".git/", "pyproject.toml", "src/pyproject.toml"), "src/a.py", "."),  # one for all of a repository
        ((".git/", "back/setup.py"), "back/src/a.py", "back"),
        ((".git/", "package.json"), "back/src/a.py", "."),  # of another language
        (("one/.git/", "two/.git/"), "two/a.py", "two"),
        (("pyproject.toml",), "a.py", "."),
        ((), "deep/er/a.py", "."),
    ],
)
def test_a_file_belongs_to_its_repository_or_to_a_project_in_it(
    tmp_path: Path, made: tuple[str, ...], file: str, root: str
) -> None:
    (tmp_path / ".git").mkdir()  # above the top: nobody's matter
    top = tmp_path / "top"
    for name in made:
        path = top / name
        path.mkdir(parents=True) if name.endswith("/") else path.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()
    assert root_of(PYTHON, top / file, top) == top / root


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_programs_come_from_absolute_folders_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "bin", "gopls")
    gopls = SETUPS["go"]
    for path in ("bin", "", ".", "./bin:"):  # what would be looked for in the project
        with pytest.raises(Missing, match="gopls is not installed: put it on the PATH"):
            program_of(gopls, {"PATH": path})
    assert program_of(gopls, {"PATH": f"bin:{tmp_path / 'bin'}"}) == tmp_path / "bin" / "gopls"
    with pytest.raises(Missing):
        program_of(LanguageSetup("x", ("bin/gopls",), {}), {"PATH": str(tmp_path)})
    own = LanguageSetup("x", (sys.executable,), {})
    assert program_of(own, {"PATH": ""}) == Path(sys.executable)


def test_typescript_is_taken_from_beside_its_server_and_never_from_the_project(tmp_path: Path) -> None:
    modules = tmp_path / "prefix" / "node_modules"
    real = program(modules / "typescript-language-server" / "lib", "cli.mjs")
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "typescript-language-server"
    link.symlink_to(real)
    with pytest.raises(Missing, match="TypeScript before version 7 installed beside it"):
        options_of(TYPESCRIPT, link)
    (modules / "typescript" / "lib").mkdir(parents=True)
    (modules / "typescript" / "lib" / "tsserver.js").touch()
    assert options_of(TYPESCRIPT, link) == {
        "disableAutomaticTypingAcquisition": True,
        "tsserver": {"path": str(modules / "typescript" / "lib" / "tsserver.js")},
    }


def test_packages_of_the_project_are_found_without_its_interpreter(tmp_path: Path) -> None:
    packages = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    settings = settings_of(PYTHON, tmp_path)
    assert section_of(settings, "python.analysis") == {
        "extraPaths": [str(packages)],
        "diagnosticMode": "openFilesOnly",
        "autoSearchPaths": True,
    }
    assert section_of(settings, "python.pythonPath") is None
    assert section_of(settings, "python.analysis.diagnosticMode.deeper") is None
    assert section_of(settings, None) == section_of(settings, "") == settings


def test_nothing_of_a_rust_project_is_run() -> None:
    assert SETUPS["rust"].options == {
        "cargo": {"buildScripts": {"enable": False}},
        "procMacro": {"enable": False},
        "checkOnSave": False,
    }


# --- what servers say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b.py", "/a/b.py"),
        ("file:///a%20b/%C3%A9%23.py", "/a b/é#.py"),
        ("file://localhost/a", "/a"),
        ("file:///a%00b", None),
        ("file://other/a", None),
        ("https://x/a", None),
        ("untitled:a", None),
        ("file:relative", None),
        ("file://[", None),
        (None, None),
        (7, None),
    ],
)
def test_only_files_of_this_machine_are_files(uri: object, path: str | None) -> None:
    assert answers.path_of(uri) == (None if path is None else Path(path))


START = {"line": 1, "character": 2}
RANGE = {"start": START, "end": START}
LOCATION = {"uri": "file:///a", "range": RANGE}
LINK = {"targetUri": "file:///a", "targetRange": None, "targetSelectionRange": RANGE}


@pytest.mark.parametrize("answer", [LOCATION, [LOCATION], [LINK], [LOCATION, LOCATION, 7, None, {}]])
def test_places_come_in_three_shapes_and_none_twice(answer: object) -> None:
    assert list(answers.places_in(answer)) == [RawPlace(Path("/a"), START)]


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        ("x", "x"),
        ({"kind": "markdown", "value": " x\r\n"}, "x"),
        (["x", {"language": "py", "value": "y"}], "x\n\ny"),
        (["", {"value": None}, 7], "None"),
        (None, ""),
        ("x\x1b[31m\u202e", "x[31m"),
    ],
)
def test_hover_comes_in_three_shapes(contents: object, text: str) -> None:
    assert answers.hover_in({"contents": contents}) == text


def test_only_errors_and_warnings_are_problems_errors_first() -> None:
    def one(severity: object, line: int) -> dict[str, Any]:
        start = {"line": line, "character": 0}
        return {"severity": severity, "message": f"m{line}\n  more", "range": {"start": start}, "code": 7}

    found = answers.problems_in([one(2, 0), one(3, 1), one(4, 2), one(1, 4), one(None, 3), "x", one("9", 5)])
    assert [(problem.severity, problem.message, problem.source) for problem in found] == [
        ("error", "m3 more", "7"),
        ("error", "m4 more", "7"),
        ("warning", "m0 more", "7"),
    ]


@pytest.mark.parametrize("change", [{"kind": "create", "uri": "file:///a"}, {"textDocument": {"uri": "x:y"}}, 7])
def test_an_edit_of_more_than_texts_is_refused(change: object) -> None:
    with pytest.raises(Unsupported):
        answers.edits_in({"documentChanges": [change]})


def test_what_is_registered_counts_until_it_is_taken_back() -> None:
    capabilities = Capabilities()
    capabilities.start({"hoverProvider": True, "renameProvider": False, "definitionProvider": {"x": 1}})
    methods = ("textDocument/hover", "textDocument/rename", "textDocument/definition", "textDocument/diagnostic")
    assert [capabilities.has(method) for method in methods] == [True, False, True, False]
    one = {"id": "1", "method": "textDocument/diagnostic", "registerOptions": {"identifier": "i"}}
    capabilities.register({"registrations": [one, {"id": 2}, None]})
    assert capabilities.options("textDocument/diagnostic") == {"identifier": "i"}
    capabilities.unregister({"unregisterations": [{"id": "1", "method": "textDocument/diagnostic"}, {"id": "3"}]})
    assert not capabilities.has("textDocument/diagnostic")


# --- whatever they say --------------------------------------------------------------------------------------------

WORDS = (
    *("uri", "targetUri", "range", "start", "end", "line", "character", "contents", "value"),
    *("name", "kind", "location", "selectionRange", "children", "severity", "message", "code", "source"),
    *("changes", "documentChanges", "textDocument", "edits", "newText", "diagnostics", "version", "items", "resultId"),
    *("registrations", "unregisterations", "id", "method", "params", "result", "error", "capabilities", "token"),
    *("begin", "containerName"),
)
ATOMS: tuple[object, ...] = (None, True, -1, 0, 1, 7, 2**70, 1.5, "", "x", "file:///a", "file:///b%ff", "full", "begin")


def noise(walk: random.Random, depth: int = 5) -> Any:
    kind = walk.random() if depth else 0.0
    if kind < 0.3:
        return walk.choice(ATOMS)
    if kind < 0.5:
        return [noise(walk, depth - 1) for _ in range(walk.randrange(4))]
    return {walk.choice(WORDS): noise(walk, depth - 1) for _ in range(walk.randrange(6))}


def taken(answer: object) -> None:
    lines = Lines("a😀b\nc", "utf-16")
    capabilities = Capabilities()
    capabilities.start(answer)
    capabilities.register(answer)
    capabilities.unregister(answer)
    assert isinstance(capabilities.encoding, str)
    assert capabilities.is_told_of_saving in (True, False)
    documents = Documents(lambda method, params: None)
    document = documents.show(Path("/a"), "text", "x")
    documents.published(answer)
    document.take_report(answer)
    document.news_of()
    for place in answers.places_in(answer):
        assert lines.from_wire(place.position) >= (1, 1)
        assert wire_position(place.position) >= (0, 0)
    problems: tuple[RawProblem, ...] = answers.problems_in(answer)
    assert all(lines.from_wire(problem.position) for problem in problems)
    assert isinstance(answers.hover_in(answer), str)
    assert all(symbol.name is not None for symbol in answers.symbols_in(answer, Path("/a")))
    try:
        for path in answers.edits_in(answer):
            assert path.is_absolute()
    except Unsupported:
        pass


@pytest.mark.parametrize("seed", range(300))
def test_no_answer_breaks_the_client(seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    for _ in range(20):
        taken(noise(walk))


METHODS = (
    "workspace/configuration",
    "client/registerCapability",
    "client/unregisterCapability",
    "workspace/applyEdit",
    "workspace/semanticTokens/refresh",
    "window/showMessageRequest",
    "textDocument/publishDiagnostics",
    "$/progress",
    "window/logMessage",
    "made/up",
)


@pytest.mark.parametrize("seed", range(50))
def test_nothing_that_a_server_asks_or_tells_breaks_it(seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    sent: list[bytes] = []
    process = cast(ServerProcess, SimpleNamespace(send=sent.append))
    server = LanguageServer(PYTHON, Path("/"), process, settings_of(PYTHON, Path("/")), Silence())
    for number in range(200):
        params = noise(walk)
        message = {"jsonrpc": "2.0", "method": walk.choice(METHODS), "params": params}
        is_request = walk.random() < 0.5
        server._connection.take(json.dumps(message | ({"id": number} if is_request else {})).encode())
        assert len(sent) == int(is_request)
        sent.clear()


@pytest.mark.parametrize("seed", range(50))
def test_no_message_breaks_the_connection(seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    sent: list[bytes] = []

    def answer(method: str, params: Any) -> Any:
        if method != "known":
            raise Unknown
        return params

    connection = Connection(sent.append, answer, lambda method, params: None)
    for _ in range(200):
        body = json.dumps(noise(walk)).encode()
        connection.take(body[: walk.randrange(len(body) + 1)] if walk.random() < 0.3 else body)
    connection.take(b"[" * 100_000)
    connection.take(b'{"id": 1, "method": "known", "params": [1]}')
    assert sent[-1].endswith(b'{"jsonrpc":"2.0","id":1,"result":[1]}')


# --- silence ---


def test_a_wait_in_which_the_server_spoke_is_no_silence() -> None:
    silence = Silence()
    for _ in range(MAX_WAITS + 1):
        begun = silence.now()
        silence.end()
        assert not silence.note_wait(begun)
    assert not silence.note_wait(silence.now())
    assert not silence.is_long


def test_a_silence_is_long_after_some_waits_and_that_is_said_once() -> None:
    silence = Silence()
    assert [silence.note_wait(silence.now()) for _ in range(4)] == [False, True, False, False]
    assert silence.is_long
    silence.end()
    assert not silence.is_long


def test_a_change_waits_as_long_as_the_contract_says() -> None:
    """3 s at most, 15 s while the server loads; it is stopped after ten idle minutes."""
    assert (room.AFTER_CHANGE_S, room.LOADING_S, room.IDLE_S) == (3, 15, 600)
