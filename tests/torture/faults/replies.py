"""The request arrives and the reply is lost, or the server answers with an error."""

from __future__ import annotations

from collections import Counter

from tests.torture.arena import POSTGRES, REDIS, Arena, Fault
from tests.torture.dialogues import STARTUP
from tests.torture.proxy import LOSE, Verdict

#: What a server answers while it loads, fails over, cannot save, or moves slots.
ERRORS = (
    b"-LOADING server is loading the dataset in memory\r\n",
    b"-BUSY server is busy running a script\r\n",
    b"-READONLY You can't write against a read only replica.\r\n",
    b"-MISCONF Errors writing to the AOF file\r\n",
    b"-MASTERDOWN Link with MASTER is down\r\n",
    b"-CLUSTERDOWN The cluster is down\r\n",
    b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    b"-NOREPLICAS Not enough good replicas to write.\r\n",
    b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    b"-NOSCRIPT No matching script.\r\n",
)

#: What PostgreSQL answers when transactions are in each other's way, it has no room, or it takes no writes.
SQLSTATES = (b"25006", b"40001", b"40P01", b"53100", b"53200", b"53300", b"55P03", b"57014")

#: What opens a connection: an error there only keeps it from being opened.
OPENING = frozenset(
    {b"HELLO", b"CLIENT", b"AUTH", b"SELECT", b"PING", b"INFO", b"CONFIG", b"SCRIPT", b"COMMAND", STARTUP}
)

#: With these a transaction of PostgreSQL ends: after an error the proxy could not say how.
ENDING = frozenset({b"COMMIT", b"ROLLBACK"})


def _kind(words: list[bytes]) -> bytes:
    """The command, and of a script which one."""
    command = words[0].upper()
    return command + b" " + words[1] if command in (b"EVALSHA", b"XGROUP", b"FCALL") else command


async def _lose_one_of_each(arena: Arena) -> None:
    """The reply to the nth request of each kind of command is lost, with the connection."""
    seen: Counter[bytes] = Counter()
    nth = arena.random.randint(1, 5)

    def decide(words: list[bytes]) -> Verdict:
        kind = _kind(words)
        seen[kind] += 1
        return LOSE if seen[kind] == nth and words[0].upper() not in OPENING else None

    async with arena.store_fault("reply-lost-of-each-kind"):
        arena.store.proxy.decide = decide
        await arena.pause(leases=4)
        arena.store.proxy.heal()


async def _lose_many(arena: Arena) -> None:
    async with arena.store_fault("replies-lost"):
        random = arena.random
        arena.store.proxy.decide = lambda words: LOSE if random.random() < 0.05 else None
        await arena.pause(leases=3)
        arena.store.proxy.heal()


async def _lose_commits(arena: Arena) -> None:
    """The server commits, and the client never hears of it."""
    async with arena.store_fault("commit-replies-lost"):
        random = arena.random
        arena.store.proxy.decide = lambda words: (
            LOSE if words[0].upper() == b"COMMIT" and random.random() < 0.1 else None
        )
        await arena.pause(leases=3)
        arena.store.proxy.heal()


async def _answer_errors(arena: Arena) -> None:
    random = arena.random
    errors = SQLSTATES if arena.store.family == "postgres" else ERRORS

    def decide(words: list[bytes]) -> Verdict:
        if words[0].upper() in OPENING | ENDING or random.random() > 0.3:
            return None
        return random.choice(errors)

    async with arena.store_fault("error-replies"):
        arena.store.proxy.decide = decide
        await arena.pause(leases=2)
        arena.store.proxy.heal()


FAULTS = [
    Fault("reply-lost-of-each-kind", _lose_one_of_each, REDIS | POSTGRES, proxied=True),
    Fault("replies-lost", _lose_many, REDIS | POSTGRES, proxied=True),
    Fault("commit-replies-lost", _lose_commits, POSTGRES, proxied=True),
    Fault("error-replies", _answer_errors, REDIS | POSTGRES, proxied=True),
]
