"""Examines a server: its version, its settings, its condition, and messages that gone workers still hold."""

from __future__ import annotations

from collections import Counter
from time import perf_counter, time
from typing import Any

import msgspec

from headrace.core.errors import BackendUnavailable, ConfigurationError, HeadraceError
from headrace.core.messages.message import Stream
from headrace.core.records.findings import Examination, Finding, Level, fail, ok, warn
from headrace.core.rules.lease import DEFAULT_LEASE
from headrace.core.runtime.clock import SECOND
from headrace.stores.redis.client.connection import Link, Wire, Word, pack
from headrace.stores.redis.keys import GROUP
from headrace.stores.redis.server.durability import CONFIRMATIONS, Confirmation
from headrace.stores.redis.server.server_info import facts_of, settings_of
from headrace.stores.redis.verbs.looking import RedisLooking

from . import diagnosis
from .permissions import rules_for

#: Round trips to measure, and the seconds that they may take in total.
ROUND_TRIPS, ROUND_TRIPS_TIME = 200, 2.0

#: A worker that has not renewed for this many leases, and at least this many microseconds, counts as gone.
STALE_LEASES, STALE_LEAST = 4, 60 * SECOND

#: Limits of the search: streams, and held messages of each lane.
STREAMS, HELD = 200, 100

#: Servers whose different facts one line shows when all of them are ok.
SHOWN = 3


class RedisExamination(RedisLooking, Examination):
    _confirmation: Confirmation | None

    async def examine(self) -> list[Finding]:
        level = _level_of(self._confirmation)
        findings = [await _examine(link, level) for link in await self._store.servers()]
        return [*_merged(findings), await self._rights(), await self._consumers()]

    async def _rights(self) -> Finding:
        store = self._store
        user, permissions = store.user or "default", store.permissions
        try:
            await permissions.check(await store.probes(), store.server_name, store.user)
        except BackendUnavailable as error:
            return fail("rights", f"they cannot be looked at: {error}", "see the lines above")
        except ConfigurationError as error:
            return fail("rights", str(error), f"ACL SETUSER {user} {rules_for(store.namespace)}")
        roles = permissions.roles
        if "everything" in roles:
            return ok("rights", f"user {user} may do all that headrace needs")
        text = f"user {user} can be a {' and a '.join(roles)}"
        if "worker" in roles:
            return ok("rights", text)
        return warn(
            "rights",
            f"{text}, but no worker",
            f"nothing, where no worker runs; else ACL SETUSER {user} {rules_for(store.namespace, 'worker')}",
        )

    async def _consumers(self) -> Finding:
        """Messages that gone workers hold, while no live worker takes them back."""
        try:
            held = await self._held()
        except HeadraceError as error:
            return warn("consumers", f"they cannot be looked at: {error}", "see the lines above")
        if not held:
            return ok("consumers", "nothing is held by a worker that is gone")
        names = ", ".join(sorted(held)[:3])
        return warn(
            "consumers",
            f"{held.total():,} messages are held by workers that are gone ({names}), and stay there",
            "start a worker of these queues and groups",
        )

    async def _held(self) -> Counter[str]:
        streams = [stream for stream in await self.streams() if stream.kind != "topic"]
        held: Counter[str] = Counter()
        for stream in streams[:STREAMS]:
            held.update(await self._gone(stream))
        return held

    async def _gone(self, stream: Stream) -> list[str]:
        """The holder of each message of a stream whose lease was not renewed for long."""
        keys = self._store.queue(stream).keys
        lease = await self._store.command("HGET", keys.meta, "lease")
        idle_us = max(
            STALE_LEAST, STALE_LEASES * (int(lease) if lease and lease.isdigit() else DEFAULT_LEASE)
        )
        rows = await self._store.commands(
            *(
                ("XPENDING", key, GROUP, "IDLE", idle_us // 1000, "-", "+", HELD)
                for key in keys.by_lane.values()
            ),
            tolerates=lambda reply: True,  # a lane that was never used has no group
        )
        return [row[1].decode() for found in rows if isinstance(found, list) for row in found]


class Examined(msgspec.Struct, frozen=True):
    """The address of a server, and its findings."""

    place: str
    findings: list[Finding]


async def _examine(link: Link, level: str) -> Examined:
    """The findings of one server. A server that cannot be reached is a finding, too."""
    try:
        wire = await link.connected()
        return Examined(str(wire.address), await examine_server(wire, level))
    except HeadraceError as error:
        return Examined("", [fail("server", str(error), "start it, or see why it does not answer")])


def _merged(servers: list[Examined]) -> list[Finding]:
    """The findings of several servers. For each name: those that are not ok, or one for all servers."""
    if len(servers) == 1:
        return servers[0].findings
    places: dict[Finding, list[str]] = {}
    for server in servers:
        for finding in server.findings:
            places.setdefault(finding, []).append(server.place)
    names = dict.fromkeys(finding.name for finding in places)
    return [line for name in names for line in _lines(name, places)]


def _lines(name: str, places: dict[Finding, list[str]]) -> list[Finding]:
    several = {finding: where for finding, where in places.items() if finding.name == name}
    problems = [
        msgspec.structs.replace(finding, text=": ".join(filter(None, (", ".join(where), finding.text))))
        for finding, where in several.items()
        if finding.level is not Level.OK
    ]
    texts = [finding.text for finding in several]
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return problems or [ok(name, " · ".join(texts[:SHOWN] + more))]


async def examine_server(wire: Wire, level: str) -> list[Finding]:
    """Examine the server of this connection. `level` is the durability that the app asks for."""
    info, save, appendfsync = await _asked(
        wire, ("INFO",), ("CONFIG", "GET", "save"), ("CONFIG", "GET", "appendfsync")
    )
    facts = facts_of(info.decode(errors="replace")) if isinstance(info, bytes) else {}
    config = {**settings_of(save), **settings_of(appendfsync)}
    valkey = facts.get("valkey_version")
    findings = [
        diagnosis.version_finding("Valkey" if valkey else "Redis", valkey or facts.get("redis_version", "")),
        diagnosis.connection_finding(wire.address),
        diagnosis.persistence_finding(facts, config),
        diagnosis.durability_finding(level, facts, config),
        diagnosis.eviction_finding(facts),
        diagnosis.memory_finding(facts),
        diagnosis.fragmentation_finding(facts),
        diagnosis.replication_finding(facts),
    ]
    if facts.get("cluster_enabled") == "1":
        [cluster] = await _asked(wire, ("CLUSTER", "INFO"))
        text = cluster.decode() if isinstance(cluster, bytes) else ""
        findings.append(diagnosis.cluster_finding(facts_of(text)))
    return [
        *findings,
        diagnosis.clock_finding(await _ahead(wire)),
        diagnosis.latency_finding(await _times(wire)),
    ]


async def _asked(wire: Wire, *commands: tuple[Word, ...]) -> list[Any]:
    """The answers. Errors are values among them, since a user may lack some of the rights."""
    return await wire.send(b"".join(map(pack, commands)), len(commands))


async def _ahead(wire: Wire) -> float:
    """Seconds by which the server's clock is ahead of this machine's, measured at half of a round trip."""
    before = time()
    [answer] = await _asked(wire, ("TIME",))
    after = time()
    seconds, microseconds = answer
    return int(seconds) + int(microseconds) / SECOND - (before + after) / 2


async def _times(wire: Wire) -> list[float]:
    times: list[float] = []
    while len(times) < ROUND_TRIPS and sum(times) < ROUND_TRIPS_TIME:
        before = perf_counter()
        await _asked(wire, ("PING",))
        times.append(perf_counter() - before)
    return times


def _level_of(confirmation: Confirmation | None) -> str:
    return next(level for level, known in CONFIRMATIONS.items() if known is confirmation)
