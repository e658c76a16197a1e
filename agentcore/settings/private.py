"""The allow rules that are written for the user: by `always`, and taken back by a revocation.

`<config dir>/settings.toml` is for every project; `<config dir>/projects/<project>/settings.toml` is private to one.
Nothing is ever written into a repository. What else stands in such a file, comments included, stays as it is.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.folders import make_private, sync_folder
from agentcore.settings.documents import MAX_FILE_BYTES, Broken, Document, parse, read_own

FILE_NAME = "settings.toml"


def user_file(config_dir: Path) -> Path:
    return config_dir / FILE_NAME


def project_file(config_dir: Path, project: str) -> Path:
    return config_dir / "projects" / project / FILE_NAME


def add_allow_rule(file: Path, rule: str, expires_at: float | None = None) -> None:
    """Write a rule into a settings file: locked, replaced atomically, private. `expires_at` is Unix time in seconds.

    Where the rule stands there already, the later word counts. Raises: OSError, Unprocessable.
    """
    entry = rule if expires_at is None else {"rule": rule, "expires_at": datetime.fromtimestamp(expires_at, UTC)}

    def add(allow: list[Any], *, is_first: bool) -> bool:
        if expires_at is None and rule in allow:
            return False
        for index in reversed([index for index, one in enumerate(allow) if text_of(one) == rule]):
            del allow[index]
        allow.insert(0 if is_first else len(allow), entry)
        return True

    make_private(file.parent)
    _change(file, partial(add, is_first=False), partial(add, is_first=True))


def remove_allow_rule(file: Path, rule: str) -> bool:
    """Take a rule out of a settings file, every time that it stands there; whether it did. Raises: as above."""

    def remove(allow: list[Any]) -> bool:
        places = [index for index, entry in enumerate(allow) if text_of(entry) == rule]
        for index in reversed(places):
            del allow[index]
        return bool(places)

    return file.exists() and _change(file, remove)


def text_of(entry: object) -> str | None:
    """The rule of an entry of an allow list, whether it expires or not."""
    text = entry.get("rule") if isinstance(entry, dict) else entry
    return str(text) if isinstance(text, str) else None


def _change(file: Path, *ways: Callable[[list[Any]], bool]) -> bool:
    """As `change_settings`, of the list `permissions.allow`."""

    def of_list(way: Callable[[list[Any]], bool], document: MutableMapping[str, Any]) -> bool:
        return way(_allow_of(document, file))

    return change_settings(file, *(partial(of_list, way) for way in ways))


def change_settings(file: Path, *ways: Callable[[MutableMapping[str, Any]], bool]) -> bool:
    """Let one of `ways` change a settings file, locked, and say whether it did. The rest of the file stays as it is.

    Comments and tables in odd places are not safe with the library: what is written must say, to another reader, what
    the file said and the change. Of several ways the first one counts by which it does. Raises: OSError, Unprocessable.
    """
    with locked(file):
        before = _read(file)
        for way in ways:
            expected = deepcopy(dict(before.data))
            if not way(expected):
                return False
            data = _rewritten(before.text, way)
            if data is not None and _says(data, expected):
                replace_private(file, data)
                return True
    raise Unprocessable(f"{_shown(file)} cannot be changed safely as it is written. Change it by hand.")


def _rewritten(text: str, way: Callable[[MutableMapping[str, Any]], bool]) -> bytes | None:
    """The file after a change; None where it cannot be made."""
    import tomlkit  # late: a start does not wait for it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        way(document)
        return tomlkit.dumps(document).encode()
    except (TOMLKitError, ValueError, RecursionError):
        return None


def _says(data: bytes, expected: Mapping[str, Any]) -> bool:
    try:
        return len(data) <= MAX_FILE_BYTES and parse(data, "", "TOML").data == expected
    except Broken:
        return False


def _array() -> list[Any]:
    import tomlkit

    return tomlkit.array()


def _allow_of(document: MutableMapping[str, Any], file: Path) -> list[Any]:
    """The list `permissions.allow`, an empty one where there is none. Raises: Unprocessable."""
    if "permissions" not in document:
        document["permissions"] = {}
    section = document["permissions"]
    if not isinstance(section, dict):
        raise Unprocessable(f"[permissions] in {_shown(file)} is not a table. Mend it.")
    if "allow" not in section:
        section["allow"] = [] if type(document) is dict else _array()
    allow = section["allow"]
    if not isinstance(allow, list):
        raise Unprocessable(f"`allow` in {_shown(file)} is not a list of rules. Mend it.")
    return allow


def _shown(file: Path) -> str:
    """The file as people are told of it: which one it is, without the path of the folder above."""
    return f"{file.parent.name}/{file.name}"


def _read(file: Path) -> Document:
    try:
        return read_own(file, _shown(file), "TOML") or Document(_shown(file), {}, "", "TOML")
    except Broken as error:
        raise Unprocessable(str(error)) from error


def replace_private(file: Path, data: bytes) -> None:
    """Put `data` in the place of a file in one step, readable for the user alone. Raises: OSError.

    A link stays: what it leads to is replaced.
    """
    file = Path(os.path.realpath(file))
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
