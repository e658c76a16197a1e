"""An MCP server as it is to be reached: its configuration with variables filled in. Values; nothing is started here."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agentcore.ports.sandbox import Sandbox, SandboxProfile
from agentcore.ports.servers import Elsewhere
from agentcore.settings.servers import McpServer

SAFE_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What a server that is run as a command is given of our environment; the rest its configuration has to name."""
DEFAULT_TIMEOUT_S = 120.0
"""Of a call in which nothing is heard; the same as for every other tool."""
OWN_PREFIX = "AGENTCORE_"
"""Variables of this server itself: nobody's configuration gets them."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class Unusable(Exception):
    """A server cannot be reached as it is configured; `str(error)` is a sentence."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a command is confined."""

    sandbox: Sandbox
    profile: SandboxProfile


@dataclass(frozen=True, slots=True)
class Target:
    """What there is to connect to."""

    name: str
    transport: Literal["stdio", "http", "sse"]
    source: str
    """The file that names it, as people are told."""
    argv: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All that the command is given."""
    folder: Path | None = None
    """In which the command is run, and the project that the server is told of."""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    confined: Confinement | None = field(default=None, repr=False)
    """None: it runs with all rights of the user."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of its environment and headers: never to be shown."""

    @property
    def key(self) -> str:
        """The same for servers that may be one: everything that it is made of, hashed."""
        folder = None if self.folder is None else str(self.folder)
        parts: list[object] = [self.name, self.transport, self.source, self.argv, dict(self.environ), folder]
        parts += [self.url, dict(self.headers), self.timeout_s]
        parts.append(None if self.confined is None else repr(self.confined.profile))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode(errors="surrogatepass")).hexdigest()


def target_of(
    server: McpServer, cwd: Path, environ: Mapping[str, str], confinement: Confinement | None = None
) -> Target:
    """A configured server as a session in `cwd` reaches it. Raises: Unusable.

    `confinement` is for a server that is to be confined. A command is run in the folder of the file that came with the
    project, else in that of the session.
    """
    timeout_s = DEFAULT_TIMEOUT_S if server.timeout_ms is None else server.timeout_ms / 1000
    filled = _Filler(server.name, environ)
    if server.transport != "stdio":
        headers = {name: filled(value) for name, value in server.headers.items()}
        url = filled(server.url)
        _check_http(server.name, url, headers)
        return Target(
            name=server.name,
            transport=server.transport,
            source=server.origin.name,
            url=url,
            headers=headers,
            timeout_s=timeout_s,
            secrets=tuple(headers.values()),
        )
    given = {name: filled(value) for name, value in server.env.items()}
    argv = tuple(filled(part) for part in (server.command, *server.args))
    if any("\0" in part for part in (*argv, *given, *given.values())) or any("=" in name for name in given):
        raise Unusable(f"The command of the MCP server {server.name} or its environment holds a NUL, or a name with =.")
    base = server.origin.base
    return Target(
        name=server.name,
        transport="stdio",
        source=server.origin.name,
        argv=argv,
        environ={name: environ[name] for name in SAFE_VARIABLES if name in environ} | given,
        folder=base if server.origin.is_shared and base is not None else cwd,
        timeout_s=timeout_s,
        confined=_confined(server, confinement),
        secrets=tuple(given.values()),
    )


def moved(target: Target, elsewhere: Elsewhere) -> Target:
    """The same command for a copy of the project: run there, told of it, and where it is confined writing there alone.

    A program of the project stays the one that is there, and an argument that is the folder becomes the copy's.
    """
    folder = target.folder
    assert folder is not None
    there = elsewhere.place_of(folder)
    program, *arguments = target.argv
    if "/" in program:
        program = str(folder / program)
    places = {str(folder): str(there), str(elsewhere.source): str(elsewhere.folder)}
    return replace(
        target,
        argv=(program, *(places.get(one, one) for one in arguments)),
        folder=there,
        confined=None if target.confined is None else _moved_there(target.confined, elsewhere),
    )


def _moved_there(confined: Confinement, elsewhere: Elsewhere) -> Confinement:
    source, profile = elsewhere.source, confined.profile
    others = (one for one in profile.writable if not one.is_relative_to(source) and not source.is_relative_to(one))
    return replace(confined, profile=replace(profile, writable=(elsewhere.folder, *others)))


def _confined(server: McpServer, confinement: Confinement | None) -> Confinement | None:
    """Raises: Unusable."""
    if not server.is_confined:
        return None
    if confinement is None:
        raise Unusable(f"The MCP server {server.name} is to run in the sandbox, and there is none here.")
    if server.has_network is None:
        return confinement
    domains = confinement.profile.domains if server.has_network else ()
    return replace(confinement, profile=replace(confinement.profile, has_network=server.has_network, domains=domains))


class _Filler:
    """Fills in `${NAME}` and `${NAME:-default}`."""

    def __init__(self, server: str, environ: Mapping[str, str]) -> None:
        self._server = server
        self._environ = environ

    def __call__(self, text: str) -> str:
        """Raises: Unusable for a variable that is not set and has no default."""
        return "".join(self._pieces(text))

    def _pieces(self, text: str) -> Iterator[str]:
        end = 0
        for found in _VARIABLE.finditer(text):
            yield text[end : found.start()]
            yield self._value(found[1], found[2])
            end = found.end()
        yield text[end:]

    def _value(self, name: str, default: str | None) -> str:
        value = None if name.upper().startswith(OWN_PREFIX) else self._environ.get(name)
        if value:
            return value
        if default is None:
            what = "is not set" if value is None else "is empty"
            raise Unusable(f"The MCP server {self._server} needs the variable {name}, which {what}.")
        return default


def _check_http(name: str, url: str, headers: Mapping[str, str]) -> None:
    """Raises: Unusable."""
    if not re.match(r"https?://[^\s/]", url) or re.search(r"[\s\0]", url):
        raise Unusable(f"The url of the MCP server {name} is none: it begins with http:// or https://.")
    for header, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", header) or re.search(r"[\r\n\0]", value):
            raise Unusable(f"A header of the MCP server {name} cannot be sent: a name has no spaces, a value one line.")
