"""Reads addresses and names of machines from requests and options."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

#: Bits of an IPv6 address that name a network; each machine chooses the rest for itself.
NETWORK_BITS = 64

#: The addresses that always mean the machine itself.
LOOPBACK = ("127.0.0.0/8", "::1")


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a text; None: it is no address. IPv4 written as IPv6 becomes IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def network_of(text: str, bits: int = NETWORK_BITS) -> str:
    """The name by which clients are distinguished: an IPv4 address, or the network of an IPv6 address,
    because one client has 2^64 of those. All texts that are no address give the same name."""
    address = address_of(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address), bits), strict=False))
    return str(address or "")


def is_loopback(text: str) -> bool:
    address = address_of(text)
    return address is not None and address.is_loopback


def is_this_machine(name: str) -> bool:
    """Whether a name or an address always means the machine itself."""
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def host_name(header: str) -> str:
    """The host in a `Host` header, without the port; empty if it cannot be read."""
    try:
        parts = urlsplit(f"//{header}")
        return (parts.hostname or "") if parts.netloc == header else ""
    except ValueError:
        return ""
