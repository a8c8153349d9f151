"""What a server says of itself, and whether it can do the work."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError

from .address import Address
from .notices import warn_once

#: XPENDING with IDLE and exclusive ranges came with it.
OLDEST = (6, 2)


class Server(msgspec.Struct, frozen=True):
    """Its name and version, and the id of this run of it, which changes with every start."""

    name: str = "Redis"
    version: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def check_server(info: str, server: str) -> Server:
    """What INFO tells; a `ConfigurationError` when jobs would not be safe there."""
    facts = facts_of(info)
    valkey = facts.get("valkey_version")
    version = valkey or facts.get("redis_version", "")
    _check_version(version, server, is_valkey=valkey is not None)
    _check_eviction(facts.get("maxmemory_policy", ""), server)
    if facts.get("cluster_enabled") == "1":
        raise ConfigurationError(
            f"{server} is a node of a cluster, which headrace cannot use yet: name a server that is none"
        )
    return Server("Valkey" if valkey else "Redis", version, facts.get("run_id", ""))


def facts_of(info: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def warn_of_risks(info: str, config: Any, address: Address, server: str) -> None:
    """Say once what a server that can work may lose or give away. `config` is the answer to CONFIG GET save,
    or an error where that is not allowed."""
    risk = _persistence_risk(facts_of(info), config)
    if risk:
        warn_once(server, f"{risk}: with it go all jobs it has accepted, unless CONFIG SET appendonly yes")
    if address.tls is None and address.path is None and not _is_loopback(address.host):
        warn_once(server, "is reached over the network without TLS: use rediss:// where others can listen")


def _persistence_risk(facts: dict[str, str], config: Any) -> str:
    if facts.get("aof_enabled") != "0":
        return ""
    if isinstance(config, list) and len(config) == 2 and config[1] == b"":
        return "keeps nothing on disk and forgets everything when it stops"
    return "keeps no append-only file and forgets what came after its last snapshot when it stops"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _check_version(version: str, server: str, *, is_valkey: bool) -> None:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match and not is_valkey and (int(match[1]), int(match[2])) < OLDEST:
        raise ConfigurationError(f"{server} is Redis {version}: headrace needs 6.2 or later, or Valkey")


def _check_eviction(policy: str, server: str) -> None:
    if policy.startswith("allkeys-"):
        raise ConfigurationError(
            f"{server} evicts any key when its memory is full (maxmemory-policy {policy}), so jobs would"
            " vanish: CONFIG SET maxmemory-policy noeviction, or give headrace a server of its own"
        )
