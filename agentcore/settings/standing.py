"""The user's own files that `always` writes to, looked at as a whole: what rules stand there, and taking one out."""

from collections.abc import Iterator
from pathlib import Path

from agentcore.origin import Origin
from agentcore.permissions.rulebook import Rulebook, read_rules
from agentcore.permissions.rules import BadRule, parse_rule
from agentcore.settings.documents import Broken, read_own
from agentcore.settings.private import FILE_NAME, project_file, remove_allow_rule, text_of, user_file


def read_standing(config_dir: Path) -> Rulebook:
    """The rules of the user's file and of every private one; a file that cannot be read is left out. Blocking."""
    rules = Rulebook()
    for file, name in _files(config_dir):
        rules += read_rules(_lists(file, name), Origin(name))[0]
    return rules


def is_own(source: str) -> bool:
    """Whether `always` writes to the file of this name, so that its allow rules can be taken back here."""
    return source == FILE_NAME or source.startswith("projects/")


def remove_rule(config_dir: Path, source: str, rule: str) -> bool:
    """Take an allow rule out of one of the user's own files, however it is spelled; whether it stood there. Blocking.

    Raises: OSError, Unprocessable.
    """
    file = next((file for file, name in _files(config_dir) if name == source), None)
    if file is None:
        return False
    written = [text for text in _allowed(_lists(file, source)) if _means(text, rule)]
    removed = [remove_allow_rule(file, text) for text in written]  # each of them, not only up to the first
    return any(removed)


def _files(config_dir: Path) -> Iterator[tuple[Path, str]]:
    """Each file with the name that its rules are told to come from."""
    yield user_file(config_dir), FILE_NAME
    projects = config_dir / "projects"
    for folder in sorted(projects.iterdir()) if projects.is_dir() else ():
        yield project_file(config_dir, folder.name), f"projects/{folder.name}/{FILE_NAME}"


def _lists(file: Path, name: str) -> dict[str, object]:
    try:
        document = read_own(file, name, "TOML")
    except Broken:
        return {}
    section = {} if document is None else document.data.get("permissions", {})
    return section if isinstance(section, dict) else {}


def _allowed(lists: dict[str, object]) -> list[str]:
    allow = lists.get("allow", [])
    return [text for one in allow if (text := text_of(one)) is not None] if isinstance(allow, list) else []


def _means(text: str, rule: str) -> bool:
    try:
        return str(parse_rule(text)) == rule
    except BadRule:
        return False
