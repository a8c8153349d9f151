"""What a server says of itself, and whether it can do the work."""

from __future__ import annotations

import re

import msgspec

from headrace.core.errors import ConfigurationError

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
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    valkey = facts.get("valkey_version")
    version = valkey or facts.get("redis_version", "")
    _check_version(version, server, is_valkey=valkey is not None)
    _check_eviction(facts.get("maxmemory_policy", ""), server)
    if facts.get("cluster_enabled") == "1":
        raise ConfigurationError(f"{server} is a node of a cluster, which headrace cannot use yet")
    return Server("Valkey" if valkey else "Redis", version, facts.get("run_id", ""))


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
