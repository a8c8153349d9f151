"""Others, each in an environment of its own: requirements, and a program that prints figures as JSON.

The programs know nothing of headrace. Each does what its own documentation recommends, with handlers that do
nothing, and names its figures as `benchmarks/measures.py` does. Those on Redis get what ours gets with
`[fast]`: uvloop and hiredis.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Peer(NamedTuple):
    """A row of the comparison. `server`: what it needs; its URL is then the first argument."""

    name: str
    requirements: tuple[str, ...]
    program: str
    arguments: tuple[str, ...] = ()
    server: Literal["redis", "redis-8", "postgres"] | None = None
    python: str = ""  # the version that it needs; empty: the one of this process


#: Each with one thread, its default, and with four.
HUEY_SQLITE = ("huey, SQLite, no fsync (its default)", "huey, SQLite, no fsync, 4 threads")
HUEY_SQLITE_FSYNC = ("huey, SQLite, fsync", "huey, SQLite, fsync, 4 threads")
HUEY_MEMORY = ("huey, memory", "huey, memory, 4 threads")
IN_MEMORY = (*HUEY_MEMORY, "taskiq, InMemoryBroker", "dramatiq, StubBroker")
CHASQUIMQ = "chasquimq, Redis 8"
#: With this the names of all rows begin that are about events.
EVENTS = "events"
FASTSTREAM = f"{EVENTS}, faststream, Redis stream"
#: With this the names of all rows begin whose worker is a process of its own.
TWO = "two processes"
TWO_HUEY_REDIS = f"{TWO}, huey, Redis"
TWO_HUEY_SQLITE = f"{TWO}, huey, SQLite, fsync"
#: With this the names of all rows begin that are about limits.
LIMITS = "limits"
PURE_PYTHON = ("streaq, Redis", "taskiq, Redis stream", "dramatiq, Redis", "arq, Redis")

#: Peers on PostgreSQL: requirements, program, the Python that it needs. Each gets the psycopg that ours gets.
_ON_POSTGRES = {
    "procrastinate": (("procrastinate", "psycopg[binary]", "uvloop"), "procrastinate_case.py", ""),
    "PgQueuer": (("pgqueuer", "asyncpg", "psycopg[binary]", "uvloop"), "pgqueuer_case.py", ""),
    "Chancy": (("chancy", "psycopg[binary]", "uvloop"), "chancy_case.py", ""),
    "DBOS": (("dbos", "psycopg[binary]", "uvloop"), "dbos_case.py", ""),
    "oban": (("oban", "psycopg[binary]", "uvloop"), "oban_case.py", "3.12"),
}
POSTGRES_PEERS = tuple(
    Peer(name, requirements, program, server="postgres", python=python)
    for name, (requirements, program, python) in _ON_POSTGRES.items()
)

PEERS = (
    Peer(HUEY_SQLITE[0], ("huey",), "huey_case.py", ("sqlite", "1")),
    Peer(HUEY_SQLITE[1], ("huey",), "huey_case.py", ("sqlite", "4")),
    Peer(HUEY_SQLITE_FSYNC[0], ("huey",), "huey_case.py", ("sqlite-fsync", "1")),
    Peer(HUEY_SQLITE_FSYNC[1], ("huey",), "huey_case.py", ("sqlite-fsync", "4")),
    Peer(HUEY_MEMORY[0], ("huey",), "huey_case.py", ("memory", "1")),
    Peer(HUEY_MEMORY[1], ("huey",), "huey_case.py", ("memory", "4")),
    Peer(IN_MEMORY[2], ("taskiq",), "taskiq_case.py"),
    Peer(IN_MEMORY[3], ("dramatiq",), "dramatiq_case.py"),
    Peer(PURE_PYTHON[0], ("streaq", "uvloop"), "streaq_case.py", server="redis"),
    Peer(
        PURE_PYTHON[1], ("taskiq-redis", "redis[hiredis]", "uvloop"), "taskiq_redis_case.py", server="redis"
    ),
    Peer(PURE_PYTHON[2], ("dramatiq[redis]", "redis[hiredis]"), "dramatiq_redis_case.py", server="redis"),
    Peer(PURE_PYTHON[3], ("arq", "redis[hiredis]", "uvloop"), "arq_case.py", server="redis"),
    Peer(CHASQUIMQ, ("chasquimq", "uvloop"), "chasquimq_case.py", server="redis-8"),
    Peer(
        TWO_HUEY_REDIS,
        ("huey[redis]", "redis[hiredis]"),
        "huey_two_processes_case.py",
        ("redis",),
        server="redis",
    ),
    Peer(TWO_HUEY_SQLITE, ("huey",), "huey_two_processes_case.py", ("sqlite-fsync",)),
    Peer(FASTSTREAM, ("faststream[redis]", "redis[hiredis]", "uvloop"), "faststream_case.py", server="redis"),
    Peer(
        f"{LIMITS}, docket, ConcurrencyLimit",
        ("pydocket", "redis[hiredis]", "uvloop"),
        "docket_limits_case.py",
        server="redis",
    ),
    Peer(
        f"{LIMITS}, BullMQ, limiter",
        ("bullmq", "redis[hiredis]", "uvloop"),
        "bullmq_limits_case.py",
        server="redis",
    ),
    Peer(
        f"{LIMITS}, dramatiq, ConcurrentRateLimiter",
        ("dramatiq[redis]", "redis[hiredis]"),
        "dramatiq_limits_case.py",
        server="redis",
    ),
)
