"""Waits until an append is confirmed by replicas or by the disk, for apps that ask for more than the server's
default."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.errors import ConfigurationError, NotConfirmed
from headrace.core.records.answers import Answer
from headrace.stores.redis.client import ReplyError
from headrace.stores.redis.client.connection import Wire, Word, pack

from .faults import can_heal, leads_elsewhere, lost, redirection_of

#: Milliseconds to wait for a confirmation.
PATIENCE = 2000


class Confirmation(msgspec.Struct, frozen=True):
    """A command that waits for what its own connection has written, so it must use the connection of the
    append. `by_replicas`: the number of replicas that must confirm follows the command's name."""

    name: str
    arguments: tuple[Word, ...]
    missing: str
    advice: str
    by_replicas: bool = False

    def command(self, wire: Wire) -> tuple[Word, ...]:
        return (self.name, *((wire.replicas,) if self.by_replicas else ()), *self.arguments)

    def is_given(self, reply: Any, wire: Wire) -> bool:
        number = reply[0] if isinstance(reply, list) else reply
        return isinstance(number, int) and number >= (wire.replicas if self.by_replicas else 1)

    async def greet(self, wire: Wire) -> None:
        """On each new connection, learn how many replicas must confirm: as many as the server itself demands
        for a write, at least one. The data survives a failover to any replica only if that is all of them."""
        if self.by_replicas:
            [reply] = await wire.send(pack(("CONFIG", "GET", "min-replicas-to-write")))
            if isinstance(reply, list) and len(reply) == 2:  # otherwise this user lacks the right
                wire.replicas = max(1, int(reply[1]))


#: Replicas have the data. It survives the loss of the server if the failover picks one of them.
REPLICATED = Confirmation(
    "WAIT",
    (PATIENCE,),
    "no replica has confirmed it within 2 s",
    "see that enough of them follow the server (its min-replicas-to-write, at least one)",
    by_replicas=True,
)

#: The data is on the server's disk. It survives a power failure there.
SYNCED = Confirmation(
    "WAITAOF",
    (1, 0, PATIENCE),
    "it was not on disk within 2 s",
    "see appendonly, appendfsync and the disk",
)

CONFIRMATIONS = {"default": None, "replicated": REPLICATED, "fsync": SYNCED}


def confirmation_of(durability: str) -> Confirmation | None:
    if durability not in CONFIRMATIONS:
        known = ", ".join(map(repr, CONFIRMATIONS))
        raise ConfigurationError(f"durability {durability!r} is not available on Redis: use {known}")
    return CONFIRMATIONS[durability]


async def confirm(confirmation: Confirmation, wire: Wire, key: bytes, answers: list[Answer]) -> None:
    """Wait until the append is safe; `NotConfirmed` when that takes too long.

    `wire` must be the connection of the append. Another connection may lead to a server that took over in
    between and never had the data.

    The server waits only for what this connection has written. A batch that is sent again on a new connection
    writes nothing there, and the wait would end at once. So this writes a key first, after any earlier write.
    """
    commands = (("SET", key, "", "PX", 60_000), confirmation.command(wire))
    if wire.closed:
        raise lost("the connection was lost before the jobs were confirmed", uncertain=True)
    written, reply = await wire.send(b"".join(map(pack, commands)), len(commands), patience=PATIENCE / 1000)
    if _was_replaced(written) or _was_replaced(reply):
        wire.close()  # its server would still repeat the answers that it remembers of this batch
        raise lost("another server has taken over before the jobs were confirmed", uncertain=True)
    if isinstance(written, ReplyError) or not confirmation.is_given(reply, wire):
        why = written if isinstance(written, ReplyError) else reply
        missing = confirmation.missing
        if confirmation.by_replicas and wire.replicas > 1:
            missing = f"not all {wire.replicas} replicas that it demands have confirmed it within 2 s"
        what = f"the store has taken the job, which may run, but {missing} ({why})"
        raise NotConfirmed(f"{what}: {confirmation.advice}", answers=answers)


def _was_replaced(reply: Any) -> bool:
    """Whether the reply says that this server is not, or no longer, the right one."""
    if not isinstance(reply, ReplyError):
        return False
    return redirection_of(reply) is not None or leads_elsewhere(reply) or can_heal(reply)


async def check_durability(confirmation: Confirmation | None, wire: Wire) -> None:
    """Raise an error at the start when this server can never give the confirmation."""
    if confirmation is SYNCED:
        [reply] = await wire.send(pack(("WAITAOF", 1, 0, 1)))
        if isinstance(reply, ReplyError):
            raise ConfigurationError(
                f"durability 'fsync' needs Redis 7.2 or Valkey with appendonly on; the server says: {reply}"
            )
