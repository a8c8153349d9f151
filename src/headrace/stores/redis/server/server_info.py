"""Reads what a server reports about itself, and checks that jobs are safe there."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.records.findings import Level
from headrace.stores.redis.client.address import Address
from headrace.stores.redis.health.diagnosis import quick_findings

from .notices import warn_once

#: The first version with XPENDING IDLE and exclusive ranges.
OLDEST = (6, 2)


class ServerInfo(msgspec.Struct, frozen=True):
    """The server's name and version, and its run id, which changes with every start."""

    name: str = "Redis"
    version: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def check_server(info: str, server: str, *, in_cluster: bool = False) -> ServerInfo:
    """Read the answer to INFO; `ConfigurationError` when jobs would not be safe on this server."""
    facts = facts_of(info)
    valkey = facts.get("valkey_version")
    version = valkey or facts.get("redis_version", "")
    _check_version(version, server, is_valkey=valkey is not None)
    _check_eviction(facts.get("maxmemory_policy", ""), server)
    if facts.get("cluster_enabled") == "1" and not in_cluster:
        raise ConfigurationError(
            f"{server} is a node of a cluster: write redis+cluster:// with some of its nodes in the URL"
        )
    return ServerInfo("Valkey" if valkey else "Redis", version, facts.get("run_id", ""))


def facts_of(info: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def warn_of_risks(info: str, config: Any, address: Address, server: str) -> None:
    """Warn once of data that a usable server may lose or reveal: the quick part of `headrace doctor`.
    `config` is the answer to CONFIG GET, or an error when that is not allowed."""
    for finding in quick_findings(facts_of(info), settings_of(config), address):
        if finding.level is not Level.OK:
            warn_once(server, f"({finding.name}): {finding.text}; {finding.remedy}", about=finding.name)


def settings_of(config: Any) -> dict[str, str]:
    """The settings in the answer to CONFIG GET; empty when that is not allowed."""
    if not isinstance(config, list):
        return {}
    words = [word.decode() for word in config]
    return dict(zip(words[::2], words[1::2], strict=True))


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
