"""Whom a proxy speaks for: its word counts where its address is trusted, and nowhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import Scope

from headrace.core.errors import ConfigurationError
from headrace.core.hosts import address_of


class Proxies:
    """`trusted`: addresses and networks of proxies."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_network(text) for text in trusted]

    def resolve(self, scope: Scope) -> Scope:
        """The request as the visitor sent it: his address, and whether he used TLS."""
        peer = (scope.get("client") or ("", 0))[0]
        if not self._trusts(peer):
            return scope
        headers = Headers(scope=scope)
        address = self._visitor(peer, headers)
        told = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        return {
            **scope,
            "client": scope["client"] if address == peer else (address, 0),
            "scheme": told if told in ("http", "https") else scope["scheme"],
        }

    def _visitor(self, peer: str, headers: Headers) -> str:
        """Each proxy adds whom it heard, at the end: so it is the last address that is no proxy's. What
        stands before it anybody may have written."""
        told = [part for line in headers.getlist("x-forwarded-for") for part in line.split(",")]
        while told and self._trusts(peer):
            peer = _without_port(told.pop().strip())
        return peer

    def _trusts(self, text: str) -> bool:
        address = address_of(text)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} among the trusted proxies is no address and no network: {error}"
        ) from error


def _without_port(text: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711`, as some proxies write."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
