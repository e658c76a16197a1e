"""Opens the socket of the daemon, before anything heavy is imported, so a taken port is reported at once.

Standard library only. Knows addresses, not HTTP. Promise: the returned socket listens already, nobody else can have
its address, and without `allow_remote` only this machine can reach it (a Unix socket: only this user).
"""

import errno
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from server.settings import CannotStart

DEFAULT_PORT = 4765
TRIED_PORTS = 64  # how far above a taken default port to look before taking any
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; `uds` is instead of host and port."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: the default, or a free one near it. 0: any free one."""
    uds: Path | None = None
    allow_remote: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens."""

    socket: socket.socket
    url: str
    """How a program on this machine reaches it; `http+unix://` with the path percent-encoded for a Unix socket."""
    uds: Path | None = None
    _inode: tuple[int, int] | None = None

    def close(self) -> None:
        """Stop listening and remove the file of a Unix socket if it is still ours. May be called again."""
        self.socket.close()
        if self.uds is None or self._inode is None:
            return
        with suppress(OSError):
            if _inode(self.uds) == self._inode:
                self.uds.unlink()


def listen(address: Address) -> Listener:
    """Open the listener. Raises: CannotStart."""
    return _listen_unix(address.uds) if address.uds is not None else _listen_tcp(address)


def _listen_tcp(address: Address) -> Listener:
    family, host = _resolve(address)
    given = address.port
    bound = _bind_near_default(family, host) if given is None else _bind_given(family, host, given)
    port = bound.getsockname()[1]
    return Listener(bound, f"http://{_local_name(host)}:{port}")


def _resolve(address: Address) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(address.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotStart(f"The host '{address.host}' is not known; use 127.0.0.1.") from None
    hosts = [(family, str(where[0])) for family, _, _, _, where in found]
    if not address.allow_remote and not all(ip_address(host.partition("%")[0]).is_loopback for _, host in hosts):
        raise CannotStart(
            f"The host '{address.host}' can be reached from other machines; use 127.0.0.1, "
            "or add --allow-remote and set a token of your own."
        )
    # `localhost` is both; programs try 127.0.0.1 in any case
    return min(hosts, key=lambda pair: pair[0] != socket.AF_INET)


def _bind_given(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    try:
        return _bind(family, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(
                f"Port {port} is taken; stop what listens there, or give another one with --port (0 takes a free one)."
            ) from None
        raise CannotStart(f"Cannot listen on {host} port {port}: {error.strerror}.") from None
    except OverflowError:
        raise CannotStart(f"There is no port {port}; ports go from 0 to 65535.") from None


def _bind_near_default(family: socket.AddressFamily, host: str) -> socket.socket:
    for port in range(DEFAULT_PORT, DEFAULT_PORT + TRIED_PORTS):
        try:
            return _bind(family, host, port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise CannotStart(f"Cannot listen on {host}: {error.strerror}.") from None
    return _bind_given(family, host, 0)


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows this option would let two programs share the port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        # two programs may both have bound the port; only one of them can listen
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


def _local_name(host: str) -> str:
    """The address by which this machine reaches a listener on `host`."""
    ip = ip_address(host.partition("%")[0])
    if ip.is_unspecified:
        return "127.0.0.1" if ip.version == 4 else "[::1]"
    return f"[{host}]" if ip.version == 6 else host


def _listen_unix(path: Path) -> Listener:
    path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow a link in place of the socket
    _clear_dead_socket(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        opened.bind(str(path))
    except OSError as error:
        opened.close()
        reason = "the path is too long" if error.errno is None else error.strerror
        raise CannotStart(f"Cannot listen on the socket {path}: {reason}.") from None
    finally:
        os.umask(before)
    opened.listen(BACKLOG)
    opened.setblocking(False)
    return Listener(opened, f"http+unix://{quote(str(path), safe='')}", path, _inode(path))


def _clear_dead_socket(path: Path) -> None:
    """Remove a socket file that nobody listens on. Raises: CannotStart for anything else at that path."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotStart(f"Cannot listen on the socket {path}: {error.strerror}.") from None
    if not stat.S_ISSOCK(mode):
        raise CannotStart(f"{path} exists and is not a socket; give another path with --uds.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        reply = probe.connect_ex(str(path))
    if reply != errno.ECONNREFUSED:
        raise CannotStart(f"A server listens on {path} already; stop it, or give another path with --uds.")
    with suppress(FileNotFoundError):
        path.unlink()


def _inode(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
