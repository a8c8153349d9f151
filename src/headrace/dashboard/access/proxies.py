"""The headers of proxies. They count only when the address of the proxy is trusted."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import Scope

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.hosts import address_of


class TrustedProxies:
    """`trusted`: addresses and networks of proxies."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_network(text) for text in trusted]

    def resolve(self, scope: Scope) -> Scope:
        """The request as the visitor sent it: with the visitor's address and scheme."""
        peer = (scope.get("client") or ("", 0))[0]
        if not self._trusts(peer):
            return scope
        headers = Headers(scope=scope)
        address = self._visitor(peer, headers)
        scheme = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        return {
            **scope,
            "client": scope["client"] if address == peer else (address, 0),
            "scheme": scheme if scheme in ("http", "https") else scope["scheme"],
        }

    def _visitor(self, peer: str, headers: Headers) -> str:
        """Each proxy appends the address of its peer. So the visitor is the last address that is not a
        proxy's. The visitor may have forged the addresses before it."""
        addresses = [part for line in headers.getlist("x-forwarded-for") for part in line.split(",")]
        while addresses and self._trusts(peer):
            peer = _without_port(addresses.pop().strip())
        return peer

    def _trusts(self, text: str) -> bool:
        address = address_of(text)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} among the trusted proxies is neither an address nor a network: {error}"
        ) from error


def _without_port(text: str) -> str:
    """Some proxies write `192.0.2.1:4711` or `[2001:db8::1]:4711`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
