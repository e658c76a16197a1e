"""MCP servers as settings name them: `[mcp_servers.<name>]`, and `mcpServers` of a `.mcp.json`.

Values only; nothing is started here. Variables in them (`${VAR}`) stay as they are written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agentcore.origin import Origin
from agentcore.settings.documents import Document
from agentcore.settings.names import did_you_mean, shown_name

MAX_SERVERS = 100
"""Of one file; more than that nobody approves, and each costs the start of a session."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_Text = Annotated[str, StringConstraints(max_length=10_000)]
_Filled = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class ServerSection(BaseModel):
    """A server as it stands in the file; keys of other agents besides these are not its matter."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)

    type: Literal["stdio", "http", "sse"] | None = None
    command: _Filled | None = None
    args: list[_Text] = []
    env: dict[str, _Text] = {}
    url: _Filled | None = None
    headers: dict[str, _Text] = {}
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds, as other agents' files have it."""
    sandbox: bool = False
    """Whether its command is confined."""
    network: bool | None = None
    """Whether it has the network there; None: as `[sandbox]` says."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server that may be used, once it is approved where its origin is shared."""

    name: str
    origin: Origin
    transport: Literal["stdio", "http", "sse"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: float | None = None
    is_confined: bool = False
    has_network: bool | None = None
    """Where it is confined; None: as commands."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """As it was written: what an approval is given for."""

    @property
    def line(self) -> str:
        """What is run or asked, for people; of the environment and the headers nothing."""
        return self.url or " ".join((self.command, *self.args))


def read_servers(table: object, key: str, origin: Origin, document: Document) -> tuple[list[McpServer], list[str]]:
    """The servers of a table `{name: server}`, the first `MAX_SERVERS`, and a sentence for each that cannot be used."""
    if not isinstance(table, dict):
        return [], [f"`{key}` in {document.place(key)} is no table of servers and has no effect."]
    servers, notices = list[McpServer](), list[str]()
    if len(table) > MAX_SERVERS:
        of_all = f"Of the {len(table)} MCP servers in {document.name} the first {MAX_SERVERS} count"
        notices.append(f"{of_all}; the others have no effect.")
    for name, section in islice(table.items(), MAX_SERVERS):
        try:
            servers.append(_read(name, section, origin))
        except ValueError as error:
            place = document.place(key, name)
            notices.append(f"The MCP server `{shown_name(name)}` in {place} cannot be used: {error}.")
        else:
            if document.syntax == "TOML":
                notices += _unknown(name, section, key, document)
    return servers, notices


def _may_be_http(url: str) -> bool:
    """Whether that is an address of the web, as far as can be told before variables are filled in."""
    scheme, _, rest = url.partition("://")
    return "${" in scheme or (scheme in ("http", "https") and re.match(r"[^\s/]", rest) is not None)


def _unknown(name: str, section: Mapping[str, Any], key: str, document: Document) -> list[str]:
    known = tuple(ServerSection.model_fields)
    return [
        f"`{shown_name(one)}` of the MCP server `{name}` in {document.place(key, name, one)} has no effect"
        f"{did_you_mean(one, known)}."
        for one in section
        if one not in known
    ]


def _read(name: str, section: object, origin: Origin) -> McpServer:
    if not _NAME.fullmatch(name):
        raise ValueError("a server's name has letters, digits, dots, dashes and underscores, at most 64")
    if not isinstance(section, dict):
        raise ValueError("it is no table")
    try:
        parsed = ServerSection.model_validate(section)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(shown_name(str(part)) for part in first["loc"])
        raise ValueError(f"`{where}`: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
    transport = parsed.type or ("stdio" if parsed.url is None else "http")
    if (parsed.command is None) == (parsed.url is None):
        raise ValueError("it needs either a command or a url")
    if (transport == "stdio") != (parsed.url is None):
        raise ValueError("a server of type stdio has a command, one of type http or sse a url")
    if parsed.url is not None and not _may_be_http(parsed.url):
        raise ValueError("its url begins with neither http:// nor https:// and a host")
    if parsed.sandbox and transport != "stdio":
        raise ValueError("`sandbox` is for a server that is run as a command")
    if parsed.network is not None and not parsed.sandbox:
        raise ValueError("`network` is said of a server with `sandbox = true`")
    return McpServer(
        name=name,
        origin=origin,
        transport=transport,
        command=parsed.command or "",
        args=tuple(parsed.args),
        env=parsed.env,
        url=parsed.url or "",
        headers=parsed.headers,
        timeout_ms=parsed.timeout,
        is_confined=parsed.sandbox,
        has_network=parsed.network,
        raw=section,
    )
