"""What a user of a server's access list must be allowed, and how a user who lacks some of it is told."""

from __future__ import annotations

from typing import Any

from hiredis import ReplyError

from headrace.core.errors import ConfigurationError

from .connection import Wire, pack
from .faults import is_denied
from .scripts import PROBE

#: The commands, as the rules of an access list name them. INFO, CONFIG and CLIENT may be missing: then the
#: server is not checked at the start, and a waiting claim is woken after two seconds instead of at once.
COMMANDS = (
    *("evalsha", "script|load", "subscribe", "ping", "select", "time", "publish", "wait", "waitaof"),
    *("del", "exists", "get", "set", "pexpire", "scan", "sadd", "srem", "smembers", "unlink"),
    *("hdel", "hexists", "hget", "hgetall", "hlen", "hmget", "hset", "hsetnx", "hvals"),
    *("zadd", "zcard", "zcount", "zrange", "zrangebyscore", "zrank", "zrem"),
    *("zrevrange", "zrevrank", "zscore"),
    *("xack", "xadd", "xclaim", "xdel", "xlen", "xpending", "xrange", "xread", "xreadgroup", "xrevrange"),
    *("xtrim", "xgroup|create", "xgroup|delconsumer", "xinfo|consumers", "xinfo|groups", "xinfo|stream"),
)
OPTIONAL = ("info", "config|get", "client|setname", "client|id", "client|unblock")

#: What an older server does not know, and would refuse to hear of in a rule.
_NEWER = ("waitaof",)


def rules_for(namespace: str, *, unknown: tuple[str, ...] = _NEWER) -> str:
    """The smallest set of rules that works, for `ACL SETUSER`."""
    commands = " ".join(f"+{name}" for name in (*COMMANDS, *OPTIONAL) if name not in unknown)
    return f"resetkeys ~{namespace}:* ~{{{namespace}:* resetchannels &{namespace}:* {commands}"


async def check_permissions(wire: Wire, namespace: str, server: str, user: str | None) -> None:
    """Refuse at the start what would fail at the first job. Whatever else keeps the server from answering
    (it loads, it is a replica) is for those who use it to find out."""
    keys = (f"{{{namespace}:q}}:probe", f"{namespace}:probe")
    commands = (
        ("SCRIPT", "LOAD", PROBE.source),
        ("EVALSHA", PROBE.digest, len(keys), *keys, f"{namespace}:probe"),
    )
    replies = await wire.send(b"".join(map(pack, commands)), len(commands))
    names = ("SCRIPT LOAD", "EVALSHA")
    missing = [name for name, reply in zip(names, replies, strict=True) if is_denied(reply)]
    missing += _denied(replies[-1])
    if missing:
        raise ConfigurationError(
            f"{server} denies {'user ' + user if user else 'this user'} what headrace needs:"
            f" {', '.join(missing)} with its keys and channels; give it the rights:"
            f" ACL SETUSER {user or 'default'} {rules_for(namespace)}"
        )


def _denied(answer: Any) -> list[str]:
    if not isinstance(answer, list):
        return []
    return list(
        dict.fromkeys(name.decode() for name, error in answer if is_denied(ReplyError(error.decode())))
    )
