"""The permission rules in the user's own files, which `always` wrote there. (The rest of them: `configuration`.)

`<config dir>/settings.toml` is for every project; `<config dir>/projects/<project>/settings.toml` is private to one.
Nothing is ever written into a repository.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcore.errors import Unprocessable
from agentcore.folders import make_private, read_regular, sync_folder
from agentcore.permissions.rules import Rule, parse_rule

if TYPE_CHECKING:
    import tomlkit

FILE_NAME = "settings.toml"
MAX_FILE_BYTES = 1024 * 1024


def user_file(config_dir: Path) -> Path:
    return config_dir / FILE_NAME


def project_file(config_dir: Path, project: str) -> Path:
    return config_dir / "projects" / project / FILE_NAME


def allow_rules(file: Path) -> list[Rule]:
    """The allow rules of one file; none when there is no file.

    Raises: Unprocessable for a file that cannot be read as what it means, a deny or ask rule included: such a rule
    is not understood at this stage, and going on without it would allow what it forbids.
    """
    section = _permissions(_read(file), file)
    if section.get("deny") or section.get("ask"):
        raise Unprocessable(f"{_shown(file)} has deny or ask rules, which this version cannot enforce. Remove them.")
    rules = []
    for text in _allowed(section, file):
        rule = parse_rule(text) if isinstance(text, str) else None
        if rule is None:
            raise Unprocessable(f"{_shown(file)} has an allow rule that cannot be read: {str(text)[:80]!r}.")
        rules.append(rule)
    return rules


def add_allow_rule(file: Path, rule: str) -> None:
    """Write a rule into a settings file: locked, replaced atomically, private. Raises: OSError, Unprocessable."""
    import tomlkit

    make_private(file.parent)
    with _locked(file):
        document = _read(file)
        document.setdefault("permissions", tomlkit.table())
        section = _permissions(document, file)
        section.setdefault("allow", tomlkit.array())
        allow = _allowed(section, file)
        if rule not in allow:
            allow.append(rule)
        _replace(file, tomlkit.dumps(document))


def _permissions(document: dict[str, Any], file: Path) -> dict[str, Any]:
    section = document.get("permissions", {})
    if not isinstance(section, dict):
        raise Unprocessable(f"[permissions] in {_shown(file)} is not a table. Mend it.")
    return section


def _allowed(section: dict[str, Any], file: Path) -> list[Any]:
    allow = section.get("allow", [])
    if not isinstance(allow, list):
        raise Unprocessable(f"`allow` in {_shown(file)} is not a list of rules. Mend it.")
    return allow


def _shown(file: Path) -> str:
    """The file as people are told of it: which one it is, without the path of the folder above."""
    return f"{file.parent.name}/{file.name}"


def _read(file: Path) -> "tomlkit.TOMLDocument":
    import tomlkit  # late: a start does not wait for it
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        return tomlkit.parse(read_regular(file, MAX_FILE_BYTES))
    except FileNotFoundError:
        return tomlkit.document()
    except ParseError as error:
        raise Unprocessable(f"{_shown(file)} is no TOML at line {error.line}. Mend it.") from error
    except (OSError, ValueError, RecursionError, TOMLKitError) as error:
        raise Unprocessable(f"{_shown(file)} cannot be read: {type(error).__name__}. Mend it.") from error


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
    sync_folder(file.parent)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
