"""The allow rules that are written for the user: by `always`, and taken back by a revocation.

`<config dir>/settings.toml` is for every project; `<config dir>/projects/<project>/settings.toml` is private to one.
Nothing is ever written into a repository. What else stands in such a file, comments included, stays as it is.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcore.errors import Unprocessable
from agentcore.folders import make_private, read_regular, sync_folder
from agentcore.settings.documents import MAX_FILE_BYTES

if TYPE_CHECKING:
    import tomlkit

FILE_NAME = "settings.toml"


def user_file(config_dir: Path) -> Path:
    return config_dir / FILE_NAME


def project_file(config_dir: Path, project: str) -> Path:
    return config_dir / "projects" / project / FILE_NAME


def add_allow_rule(file: Path, rule: str) -> None:
    """Write a rule into a settings file: locked, replaced atomically, private. Raises: OSError, Unprocessable."""

    def add(allow: list[Any]) -> bool:
        is_new = rule not in allow
        if is_new:
            allow.append(rule)
        return is_new

    make_private(file.parent)
    _change(file, add)


def remove_allow_rule(file: Path, rule: str) -> bool:
    """Take a rule out of a settings file, every time that it stands there; whether it did. Raises: as above."""

    def remove(allow: list[Any]) -> bool:
        places = [index for index, text in enumerate(allow) if text == rule]
        for index in reversed(places):
            del allow[index]
        return bool(places)

    return file.exists() and _change(file, remove)


def _change(file: Path, change: Callable[[list[Any]], bool]) -> bool:
    """Let `change` work on the allow list; what it says is whether there is something to write."""
    import tomlkit

    with locked(file):
        document = _read(file)
        section = document.setdefault("permissions", tomlkit.table())
        if not isinstance(section, dict):
            raise Unprocessable(f"[permissions] in {_shown(file)} is not a table. Mend it.")
        allow = section.setdefault("allow", tomlkit.array())
        if not isinstance(allow, list):
            raise Unprocessable(f"`allow` in {_shown(file)} is not a list of rules. Mend it.")
        has_changed = change(allow)
        if has_changed:
            replace_private(file, tomlkit.dumps(document).encode())
    return has_changed


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


def replace_private(file: Path, data: bytes) -> None:
    """Put `data` in the place of a file in one step, readable for the user alone. Raises: OSError."""
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
    sync_folder(file.parent)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Be the only one who changes a file, among all processes; its folder must be there. Blocks. Raises: OSError."""
    lock = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
