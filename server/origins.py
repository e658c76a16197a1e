"""Who may talk to the server: which `Host` a request may name and which web page it may come from.

Pure functions over headers; `guard` asks them first, before the token. A name that resolves to this machine but is
not ours (DNS rebinding) fails the Host check; a page of another origin fails the Origin check even when it
guessed the token's place. Promise: exactly one well-formed `Host`, and no request of a foreign page.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TypeAlias

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::(?P<port>[0-9]{1,5}))?")
_OWN_SITE = frozenset({b"same-origin", b"none"})
"""Values of `Sec-Fetch-Site` for our own pages and for what a person typed; any other is a foreign page."""


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    """Lower case; an IPv6 address with its brackets."""
    port: int | None
    """None where the header names none."""

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """All values of a header; `name` in lower case."""
    return [value for key, value in headers if key == name]


def parse_host(text: str) -> Host | None:
    """Read `name`, `name:port`, `[v6]` or `[v6]:port`; None for anything else."""
    match = _HOST.fullmatch(text.lower())
    return Host(match["name"], int(match["port"]) if match["port"] else None) if match else None


def is_loopback_name(name: str) -> bool:
    """Say whether a host name is `localhost`, in 127.0.0.0/8, or `[::1]`."""
    if name == "localhost":
        return True
    try:
        if name.startswith("["):
            return IPv6Address(name[1:-1]) == IPv6Address(1)
        return IPv4Address(name).is_loopback
    except AddressValueError:
        return False


def admitted_host(headers: Headers, port: int | None, allowed: Collection[str]) -> Host | None:
    """Return the host that the request names, or None when it must be refused.

    `port` is the one the request came in by (None on a Unix socket, where any is right). An entry of `allowed`
    admits its name with that port, or with any port if it has none.
    """
    given = values_of(headers, b"host")
    host = parse_host(given[0].decode("latin-1")) if len(given) == 1 else None
    if host is None:
        return None
    if is_loopback_name(host.name) and (port is None or host.port in (None, port)):
        return host
    return host if str(host) in allowed or host.name in allowed else None


def own_origins(scheme: str, host: Host, server: tuple[str, int | None] | None) -> frozenset[str]:
    """The origins of pages that this server itself serves: as the Host names it and as it listens."""
    origins = {f"{scheme}://{host}"}
    if server and server[1] is not None:
        address = f"[{server[0]}]" if ":" in server[0] else server[0]
        origins |= {f"{scheme}://{host.name}:{server[1]}", f"{scheme}://{address}:{server[1]}"}
    return frozenset(origins)


def is_admitted_page(headers: Headers, origin: str | None, admitted: Collection[str]) -> bool:
    """Say whether the page behind a request, if there is one, is ours or was allowed.

    `origin` is the one that `origin_of` found. Browsers send no Origin with images and links, but then they say
    in `Sec-Fetch-Site` that another site made the request.
    """
    if origin is not None:
        return origin in admitted
    return all(value in _OWN_SITE for value in values_of(headers, b"sec-fetch-site"))


def origin_of(headers: Headers) -> str | None:
    """The `Origin` of a request in lower case, None without one. Several count as `null`, which is never allowed."""
    given = values_of(headers, b"origin")
    if not given:
        return None
    return given[0].decode("latin-1").lower() if len(given) == 1 else "null"
