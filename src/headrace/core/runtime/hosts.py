"""Addresses and names of machines, as they come in requests and options."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

#: Bits of an IPv6 address that name a network; the rest of it each machine chooses for itself.
NETWORK_BITS = 64

#: The addresses of this machine that no other has.
LOOPBACK = ("127.0.0.0/8", "::1")


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None: it is no address. An IPv4 address that is written as IPv6 is the IPv4 address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def network_of(text: str, bits: int = NETWORK_BITS) -> str:
    """By what visitors are told apart: an IPv4 address, or the first bits of one of IPv6, of which anybody
    has 2^64. All that is no address is alike."""
    address = address_of(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address), bits), strict=False))
    return str(address or "")


def is_loopback(text: str) -> bool:
    address = address_of(text)
    return address is not None and address.is_loopback


def is_this_machine(name: str) -> bool:
    """A name or an address that always means the machine itself."""
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def host_name(header: str) -> str:
    """What a `Host` header names, without the port; empty if it cannot be read."""
    try:
        parts = urlsplit(f"//{header}")
        return (parts.hostname or "") if parts.netloc == header else ""
    except ValueError:
        return ""
