"""Says which rights each role needs in the access list (ACL) of a server, and refuses a user that lacks
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Wire, pack
from headrace.stores.redis.scripts import PROBE
from headrace.stores.redis.server.faults import is_denied

#: A producer enqueues, publishes, waits and cancels. A worker runs jobs, and may produce. A reader looks at
#: everything and changes nothing: a dashboard, an exporter. Everything: also the verbs that control queues.
Role = Literal["producer", "worker", "reader", "everything"]

_BASE = ("evalsha", "script|load", "subscribe", "ping", "select", "time")

_LOOKING = (
    *("exists", "get", "smembers", "hget", "hgetall", "hmget"),
    *("zcard", "zcount", "zrange", "zscore"),
    *("xlen", "xpending", "xrange", "xrevrange", "xinfo|groups", "xinfo|stream"),
)

_READER = (
    *_BASE,
    *_LOOKING,
    *("scan", "hvals", "zrevrange", "zrevrank", "xread"),
)

_PRODUCER = (
    *_BASE,
    *_LOOKING,
    *("publish", "wait", "waitaof", "del", "mget", "set", "pexpire", "sadd", "hdel", "hexists", "hset"),
    *("zadd", "zrem", "xadd", "xdel", "xtrim"),
)

_WORKER = (
    *_PRODUCER,
    *("expire", "hincrby", "hlen", "hscan", "hsetnx", "hstrlen", "mset", "srem", "zrangebyscore"),
    *("xack", "xclaim", "xread", "xreadgroup"),
    *("xgroup|create", "xgroup|delconsumer", "xinfo|consumers"),
)

#: The commands of each role, as the rules of an access list name them.
ROLES: dict[Role, tuple[str, ...]] = {
    "reader": _READER,
    "producer": _PRODUCER,
    "worker": _WORKER,
    "everything": tuple(dict.fromkeys((*_WORKER, *_READER))),
}

COMMANDS = ROLES["everything"]

#: A user may lack these. Then the server is not checked at the start, and a waiting claim wakes after two
#: seconds instead of at once. We send CONFIG GET but do not ask for the right: it also shows passwords.
OPTIONAL = ("info", "client|setname", "client|id", "client|unblock")

#: What every role also needs: on a cluster, and to check the primary that sentinels name.
CLUSTERED, WATCHED = ("cluster|slots", "asking"), ("role",)

#: Commands that an older server does not know, and would refuse in a rule.
_NEWER = ("waitaof",)


def rules_for(namespace: str, role: Role = "everything") -> str:
    """The smallest set of rules for a role, for `ACL SETUSER`."""
    commands = " ".join(f"+{name}" for name in (*ROLES[role], *OPTIONAL) if name not in _NEWER)
    return f"resetkeys ~{namespace}:* ~{{{namespace}:* resetchannels &{namespace}:* {commands}"


class Probe(msgspec.Struct, frozen=True):
    """A connection to test rights on, and two keys to test with: one of a queue, one of the namespace."""

    wire: Wire
    keys: tuple[str, str]


def probe_keys(namespace: str) -> tuple[str, str]:
    return f"{{{namespace}:q}}:probe", f"{namespace}:probe"


class Permissions:
    """A user with the rights of no role is refused when the store is opened. A user that lacks the rights of
    a producer or worker is refused when it first acts as one. So a dashboard needs no right to change
    anything, and yet no worker starts that would fail at its first job."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._denied: frozenset[str] = frozenset(COMMANDS)

    @property
    def roles(self) -> list[Role]:
        """The roles for which the user has all rights, as far as known."""
        return [role for role in ROLES if not self.lacking(role)]

    def lacking(self, role: Role) -> list[str]:
        return [name for name in ROLES[role] if name in self._denied]

    async def check(self, probes: Sequence[Probe], server: str, user: str | None) -> None:
        """Refuse a user that has the rights of no role. Other errors (the server loads, or is a replica) are
        left to the later requests."""
        self._denied = await self._probed(probes)
        if not self.roles:
            raise self._refusal("worker", server, user)

    async def demand(self, role: Role, probes: Sequence[Probe], server: str, user: str | None) -> None:
        """Refuse a user that lacks rights of this role. The rights are tested again: they may be granted by
        now."""
        if not self.lacking(role):
            return
        self._denied = await self._probed(probes)
        if self.lacking(role):
            raise self._refusal(role, server, user)

    def _refusal(self, role: Role, server: str, user: str | None) -> ConfigurationError:
        missing = ", ".join(name.replace("|", " ").upper() for name in self.lacking(role))
        return ConfigurationError(
            f"{server} denies {'user ' + user if user else 'this user'} what a {role} needs: {missing} with"
            f" its keys and channels; give it the rights: ACL SETUSER {user or 'default'}"
            f" {rules_for(self._namespace, role)}"
        )

    async def _probed(self, probes: Sequence[Probe]) -> frozenset[str]:
        return frozenset([name for probe in probes for name in await self._denied_to(probe)])

    async def _denied_to(self, probe: Probe) -> list[str]:
        commands = (
            ("SCRIPT", "LOAD", PROBE.source),
            ("EVALSHA", PROBE.digest, len(probe.keys), *probe.keys, f"{self._namespace}:probe"),
        )
        replies = await probe.wire.send(b"".join(map(pack, commands)), len(commands))
        names = ("script|load", "evalsha")
        missing = [name for name, reply in zip(names, replies, strict=True) if is_denied(reply)]
        return missing + _denied(replies[-1])


def _denied(answer: Any) -> list[str]:
    if not isinstance(answer, list):
        return []
    return [
        name.decode().lower().replace(" ", "|")
        for name, error in answer
        if is_denied(ReplyError(error.decode()))
    ]
