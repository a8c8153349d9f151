"""What a user of a server's access list must be allowed, by what it is there for, and how one who lacks some
of it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from hiredis import ReplyError

from headrace.core.errors import ConfigurationError
from headrace.stores.redis.client.connection import Wire, pack
from headrace.stores.redis.faults import is_denied
from headrace.stores.redis.scripts import PROBE

#: A producer enqueues, publishes, waits and cancels. A worker runs what is there, and may produce. A reader
#: looks at everything and changes nothing: a dashboard, an exporter. Everything: also what steers.
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
    *("expire", "hincrby", "hlen", "hsetnx", "srem", "zrangebyscore"),
    *("xack", "xclaim", "xread", "xreadgroup"),
    *("xgroup|create", "xgroup|delconsumer", "xinfo|consumers"),
)

#: The commands of each, as the rules of an access list name them.
ROLES: dict[Role, tuple[str, ...]] = {
    "reader": _READER,
    "producer": _PRODUCER,
    "worker": _WORKER,
    "everything": tuple(dict.fromkeys((*_WORKER, *_READER))),
}

COMMANDS = ROLES["everything"]

#: These may be missing: then the server is not checked at the start, and a waiting claim is woken after two
#: seconds instead of at once. CONFIG GET is asked, but not asked for: it shows the server's passwords, too.
OPTIONAL = ("info", "client|setname", "client|id", "client|unblock")

#: What every role needs besides on a cluster, and to make sure of the primary that sentinels name.
CLUSTERED, WATCHED = ("cluster|slots", "asking"), ("role",)

#: What an older server does not know, and would refuse to hear of in a rule.
_NEWER = ("waitaof",)


def rules_for(namespace: str, role: Role = "everything", *, unknown: tuple[str, ...] = _NEWER) -> str:
    """The smallest set of rules with which a role can be played, for `ACL SETUSER`."""
    commands = " ".join(f"+{name}" for name in (*ROLES[role], *OPTIONAL) if name not in unknown)
    return f"resetkeys ~{namespace}:* ~{{{namespace}:* resetchannels &{namespace}:* {commands}"


class Probe(msgspec.Struct, frozen=True):
    """A connection over which rights are tried, and two keys to try them with: a queue's, the namespace's."""

    wire: Wire
    keys: tuple[str, str]


def probe_keys(namespace: str) -> tuple[str, str]:
    return f"{{{namespace}:q}}:probe", f"{namespace}:probe"


class Permissions:
    """Who may play no role at all is refused when the store is opened; who may not be a producer or a worker,
    when it first acts as one. So a dashboard needs no right to change anything, and yet no worker starts that
    would fail at its first job."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._denied: frozenset[str] = frozenset(COMMANDS)

    @property
    def roles(self) -> list[Role]:
        """What the user can be, as far as could be found out."""
        return [role for role in ROLES if not self.lacking(role)]

    def lacking(self, role: Role) -> list[str]:
        return [name for name in ROLES[role] if name in self._denied]

    async def check(self, probes: Sequence[Probe], server: str, user: str | None) -> None:
        """Refuse a user who can be nothing. Whatever else keeps the server from answering (it loads, it is a
        replica) is for those who use it to find out."""
        self._denied = await self._probed(probes)
        if not self.roles:
            raise self._refusal("worker", server, user)

    async def demand(self, role: Role, probes: Sequence[Probe], server: str, user: str | None) -> None:
        """Refuse a user who cannot play this role; one who was given the rights by now is not."""
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
