"""Which servers there are, where they are found, and what each is told. Touches the disk; starts nothing.

Nothing of the project is run by starting a server: programs come from PATH and from the server's own environment,
TypeScript from beside its server, and build scripts stay off.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcore.languages import LanguageSetup


class Missing(Exception):
    """The server is not installed; `str(error)` is a sentence that says what to do."""


KNOWN = (
    LanguageSetup(
        "python",
        ("pyright-langserver", "--stdio"),
        {".py": "python", ".pyi": "python"},
        ("pyproject.toml", "pyrightconfig.json", "setup.py", "setup.cfg", "requirements.txt"),
        environ={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        settings={"python": {"analysis": {"diagnosticMode": "openFilesOnly", "autoSearchPaths": True}}},
    ),
    LanguageSetup(
        "typescript",
        ("typescript-language-server", "--stdio"),
        {
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".tsx": "typescriptreact",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".jsx": "javascriptreact",
        },
        ("tsconfig.json", "jsconfig.json", "package.json"),
        options={"disableAutomaticTypingAcquisition": True},  # else it installs packages from the network
    ),
    LanguageSetup("go", ("gopls",), {".go": "go"}, ("go.work", "go.mod")),
    LanguageSetup(
        "rust",
        ("rust-analyzer",),
        {".rs": "rust"},
        ("Cargo.toml",),
        options={  # all three run code of the project
            "cargo": {"buildScripts": {"enable": False}},
            "procMacro": {"enable": False},
            "checkOnSave": False,
        },
    ),
    LanguageSetup(
        "c",
        ("clangd", "--background-index=false"),
        {
            ".c": "c",
            ".h": "c",
            ".cc": "cpp",
            ".cpp": "cpp",
            ".cxx": "cpp",
            ".hh": "cpp",
            ".hpp": "cpp",
            ".m": "objective-c",
            ".mm": "objective-cpp",
        },
        ("compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
)

_TSSERVER = Path("node_modules", "typescript", "lib", "tsserver.js")
_MAX_VENV_FOLDERS = 4


def merged(own: Sequence[LanguageSetup]) -> tuple[LanguageSetup, ...]:
    """The known setups with the user's in their place or before them: his win where both mean a file."""
    names = {setup.language for setup in own}
    return (*own, *(setup for setup in KNOWN if setup.language not in names))


def program_of(setup: LanguageSetup, environ: Mapping[str, str]) -> Path:
    """Where a server's program is. Raises: Missing."""
    name = setup.argv[0]
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join((*folders, str(Path(sys.prefix, "bin")))))
    if found is None or not Path(found).is_absolute():
        raise Missing(f"{setup.server} is not installed: put it on the PATH that the server is started with")
    return Path(found)


def options_of(setup: LanguageSetup, program: Path) -> dict[str, Any]:
    """What the server is told at its start. Raises: Missing."""
    options = dict(setup.options)
    if setup.server == "typescript-language-server" and "tsserver" not in options:
        options["tsserver"] = {"path": str(_tsserver_of(program.resolve()))}
    return options


def _tsserver_of(program: Path) -> Path:
    """The TypeScript that is installed beside the server; without this it would run the project's own copy."""
    for folder in program.parents:
        if (folder / _TSSERVER).is_file():
            return folder / _TSSERVER
    raise Missing("typescript-language-server needs a TypeScript before version 7 installed beside it")


def settings_of(setup: LanguageSetup, root: Path) -> dict[str, Any]:
    """What the server's questions for settings are answered from."""
    settings = dict(setup.settings)
    python = settings.get("python")
    if setup.server == "pyright-langserver" and isinstance(python, Mapping):
        analysis = {"extraPaths": list(_packages_of(root)), **python.get("analysis", {})}
        settings["python"] = {**python, "analysis": analysis}
    return settings


def _packages_of(root: Path) -> Iterator[str]:
    """The packages of the project's virtual environment, found without running its interpreter."""
    for name in (".venv", "venv"):
        for folder in sorted((root / name / "lib").glob("python3*"))[:_MAX_VENV_FOLDERS]:
            if (folder / "site-packages").is_dir():
                yield str(folder / "site-packages")


def section_of(settings: Mapping[str, Any], section: object) -> Any:
    """The part of the settings that `a.b` names; None where there is none, all of it without a name."""
    if not isinstance(section, str) or not section:
        return dict(settings)
    value: Any = settings
    for name in section.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def root_of(setup: LanguageSetup, real: Path, top: Path) -> Path:
    """The project that a file belongs to: its repository, or a folder in it that the language's own files mark.

    One server for a whole repository where its top is a project of the language: else one for each such folder.
    """
    folders = [folder for folder in real.parents if folder.is_relative_to(top)]
    repository = next((folder for folder in folders if (folder / ".git").exists()), top)
    if _has_marker(repository, setup):
        return repository
    inside = (folder for folder in folders if folder.is_relative_to(repository))
    return next((folder for folder in inside if _has_marker(folder, setup)), repository)


def _has_marker(folder: Path, setup: LanguageSetup) -> bool:
    return any((folder / name).exists() for name in setup.markers)
