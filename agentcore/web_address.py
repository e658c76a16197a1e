"""An address of the web as a value that has one reading only.

Whoever judges an address (a rule for a domain) and whoever connects to it must see the same host, so what different
readers understand differently is refused: backslashes, white space, control characters, names before an `@`.
"""

import re
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import quote, urljoin, urlsplit

MAX_CHARS = 2000
_PORTS = {"http": 80, "https": 443}
_UNCLEAR = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]")
_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NO_HOST = "the address has no usable host"
_SAFE = "!#$%&'()*+,/:;=?@[]~"  # what stays as it is in a path: an address that is quoted already stays so


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address of http or https, in parts."""

    scheme: str
    host: str
    """Lower case, ASCII; an IPv6 address without its brackets."""
    port: int
    target: str
    """Path and query, ASCII; never empty."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """Host, and the port where it is not the usual one: the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def leads_on_to(self, other: "WebAddress") -> bool:
        """Whether a redirect stays on the same host: the same place, or the safe door of it."""
        if other.host != self.host:
            return False
        is_same = (self.scheme, self.port) == (other.scheme, other.port)
        return is_same or (self.scheme, other.scheme, other.port) == ("http", "https", 443)


def parse_address(text: str) -> WebAddress:
    """Read an address. Raises: ValueError with a sentence."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"the address is longer than {MAX_CHARS} characters")
    if _UNCLEAR.search(text):
        raise ValueError("the address contains white space, a backslash or a control character: write them as %20 …")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("the address cannot be read: write it as https://host/path") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise ValueError("only addresses that begin with http:// or https:// can be fetched")
    if "@" in parts.netloc:
        raise ValueError("the address contains a user name or password: leave it out")
    host = _host(parts.hostname or "")
    if port == 0:
        raise ValueError("the address has the port 0")
    path = quote(parts.path or "/", safe=_SAFE)
    target = f"{path}?{quote(parts.query, safe=_SAFE)}" if parts.query else path
    return replace(WebAddress(scheme, host, _PORTS[scheme], target), port=port or _PORTS[scheme])


def redirected(base: WebAddress, location: str) -> str:
    """Where a redirect leads, as an absolute address that still has to be parsed."""
    return urljoin(str(base), location.strip()[: 2 * MAX_CHARS])


def _host(host: str) -> str:
    """The host in the one form that it may be written in. Raises: ValueError."""
    if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _numeric(host)
    try:
        plain = host if host.isascii() else host.encode("idna").decode()
        is_canonical = host.isascii() or plain.encode().decode("idna") == host
    except UnicodeError:
        raise ValueError(_NO_HOST) from None
    if len(plain) > 253 or not _NAME.fullmatch(plain):
        raise ValueError(_NO_HOST)
    if not is_canonical:
        raise ValueError("the host is written in look-alike letters: write it plainly")
    return plain


def _numeric(host: str) -> str:
    """An address as a host: 127.1, 0x7f000001 and 2130706433 are all the same one, and only one of them is read."""
    try:
        is_usual = str(ip_address(host)) == host
    except ValueError:
        is_usual = False
    if not is_usual or "%" in host:
        raise ValueError(f"{_NO_HOST}: write an address of numbers as 192.0.2.1 or [2001:db8::1]")
    return host
