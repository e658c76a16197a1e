"""Which addresses of the network a tool may connect to: public ones, whatever they are written as.

Pure, but for `resolve`. An address that carries another one (IPv4 in IPv6, a tunnel, a translation) is judged by
itself and by what it carries, since either may be where a packet ends.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import anyio

Address: TypeAlias = IPv4Address | IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Name and port to addresses, best first; a literal address gives itself. Raises: OSError."""
Allow: TypeAlias = Callable[[Address], bool]

# Besides what Python's `is_global` rules out: older versions of it know fewer of the registries' special networks.
_CLOSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(text)
    for text in (
        "100.64.0.0/10",  # carriers' own networks; one vendor's metadata service is in it
        "168.63.129.16/32",  # a cloud's host agent, on an address that looks public
        "192.0.0.0/24",  # protocols' own; one vendor's metadata service is in it
        "192.88.99.0/24",  # relays of 6to4
        "fec0::/10",  # site-local, from before there were unique local addresses
        "64:ff9b:1::/48",  # translation inside a network
        "2001::/23",  # protocols' own, tunnels among them
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet's, and not this machine, its network, or a group of receivers."""
    return all(_is_public(form) for form in (address, *_carried(address)))


def _is_public(address: Address) -> bool:
    if _is_wrapped(address):
        return True  # judged by what it carries
    if not address.is_global or address.is_multicast or address.is_unspecified or address.is_reserved:
        return False
    return not any(address in network for network in _CLOSED if network.version == address.version)


def _is_wrapped(address: Address) -> bool:
    """IPv4 in a form of IPv6 that the standard library calls reserved or private as a whole."""
    return isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64)


def _carried(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside an IPv6 address."""
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def checked(answers: Sequence[str], allow: Allow) -> list[Address]:
    """The addresses that a name has, if every one of them may be connected to. Raises: ValueError."""
    addresses = [ip_address(answer) for answer in answers]
    if not addresses:
        raise ValueError("it has no address")
    if not all(map(allow, addresses)):
        raise ValueError("it leads to this machine or to a private network, which tools do not reach")
    return addresses


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a name. Satisfies `Resolver`."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
