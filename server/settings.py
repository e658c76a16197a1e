"""What the operator chose: values only, read once at the start and never changed.

Light on purpose (standard library only): the command line fills these before anything heavy is imported. Knows
nothing of sockets or HTTP. Raises `CannotStart` with one sentence for the person at the terminal.
"""

import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_BYTES = 32  # the promise of the API
STATE_VARIABLE = "AGENTCORE_STATE_DIR"  # clients look for servers there, too
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
TOKEN_VARIABLE = "AGENTCORE_TOKEN"  # noqa: S105 - the name of an environment variable


class CannotStart(Exception):
    """The program cannot do what it was asked to; `str(error)` is the sentence for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where this program keeps its files."""

    config: Path
    data: Path
    """Journals and what belongs to them."""
    state: Path
    """Discovery files: `<state>/servers/<pid>.json`."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything the application is built from; `server.asgi.build` takes it."""

    cwd: Path
    roots: tuple[Path, ...]
    """Folders in which sessions may work; the working directory is the first."""
    folders: Folders
    token: str = field(repr=False)
    token_file: Path | None = None
    """Where the token came from, resolved: closed to the model's tools."""
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    unattended: str | None = None
    allow_yolo: bool = False
    allow_remote: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    debug: bool = False

    @property
    def config_dir(self) -> Path:
        return self.folders.config

    @property
    def data_dir(self) -> Path:
        return self.folders.data

    @property
    def state_dir(self) -> Path:
        return self.folders.state


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One headless run; `server.headless.main` takes it and returns the exit code."""

    prompt: str
    cwd: Path
    folders: Folders
    output: str = "text"
    model: str | None = None
    mode: str | None = None
    allow_yolo: bool = False
    max_turns: int | None = None


def folders(given: Path | None) -> Folders:
    """The platform's folders for `agentcore`.

    `given`, else AGENTCORE_STATE_DIR, takes the place of state, and its `data` that of data.
    """
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("agentcore", appauthor=False)
    override = given or os.environ.get(STATE_VARIABLE)
    if not override:
        return Folders(dirs.user_config_path, dirs.user_data_path, dirs.user_state_path)
    state = Path(os.path.abspath(override))  # noqa: PTH100 - `resolve` would follow links that the operator chose
    return Folders(dirs.user_config_path, state / "data", state)


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    is_chosen: bool
    """Whether the operator set it; one made at random serves this machine alone."""


def find_token(file: Path | None, given: str | None) -> Token:
    """Take the token from the file, the command line, the environment, or make one. Raises: CannotStart."""
    if file is not None:
        return Token(_checked(_read_token(file), f"the token file {file}"), is_chosen=True)
    if given is not None:
        return Token(_checked(given, "--token"), is_chosen=True)
    if (set_outside := os.environ.get(TOKEN_VARIABLE)) is not None:
        return Token(_checked(set_outside, TOKEN_VARIABLE), is_chosen=True)
    return Token(secrets.token_urlsafe(TOKEN_BYTES), is_chosen=False)


def _read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            if os.name == "posix" and stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise CannotStart(f"Others can read the token file {file}; run: chmod 600 {file}")
            return opened.read(4096).decode()
    except OSError as error:
        raise CannotStart(f"Cannot read the token file {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CannotStart(f"The token file {file} is not text.") from None


def _checked(text: str, source: str) -> str:
    """A token travels in a header and through shells: the characters of a bearer token (RFC 6750), no others."""
    token = text.strip()
    if not token:
        raise CannotStart(f"The token from {source} is empty; set one, or leave it out to get one made at random.")
    if _TOKEN.fullmatch(token) is None:
        raise CannotStart(f"The token from {source} may hold letters, digits and -._~+/= only.")
    return token


def refuse_yolo(mode: str | None, *, is_allowed: bool) -> None:
    """Raises: CannotStart for the mode yolo without the switch that permits it."""
    if mode == "yolo" and not is_allowed:
        raise CannotStart("The mode yolo runs everything without asking; add --allow-yolo if that is what you want.")


def existing_folder(path: Path) -> Path:
    """The real path of a folder. Raises: CannotStart when there is none."""
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise CannotStart(f"There is no folder {path}.") from None
    if not found.is_dir():
        raise CannotStart(f"{path} is not a folder.")
    return found
