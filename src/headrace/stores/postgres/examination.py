"""Examines the server: its version, its settings, the rights of this role, the size of the tables, an outbox
that no worker relays, and transactions that stay open."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from psycopg.errors import InsufficientPrivilege

from headrace.core.errors import HeadraceError
from headrace.core.records.findings import Examination, Finding, fail, ok, spoken_bytes, warn
from headrace.stores.postgres.schema.grants import (
    CLOSED_FUNCTIONS,
    MISSING,
    grant_of_functions,
    grants_for,
    needed_rights,
)
from headrace.stores.postgres.schema.migrations import CURRENT
from headrace.stores.postgres.schema.schema import READ
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.encryption import connection_finding
from headrace.stores.postgres.steps import PostgresSteps

#: The oldest server that the tests run on, as `server_version_num` has it.
OLDEST: Final = 130000

#: Round trips to measure.
ROUND_TRIPS: Final = 20

#: Seconds after which an open transaction keeps vacuum from its work, and after which a relay is missing.
LONG: Final = 300

SERVER: Final = """
SELECT current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
    current_setting('default_transaction_read_only') = 'on', current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
    current_setting('max_connections')::integer, (SELECT count(*) FROM pg_stat_activity)
"""

TABLES: Final = """
SELECT sum(pg_total_relation_size(relid))::bigint, sum(n_dead_tup)::bigint, sum(n_live_tup)::bigint
FROM pg_stat_user_tables WHERE schemaname = $1
"""

#: → for how many seconds one has been open; the role, and whether it sees the transactions of others.
OPEN_TRANSACTIONS: Final = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8,
    current_user, pg_has_role('pg_read_all_stats', 'USAGE')
FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
"""

#: namespace → how many messages wait in the outbox of users beside the tables, and for how many seconds.
UNRELAYED: Final = """
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp()) - min(at_us) / 1000000.0, 0)::float8
FROM headrace.headrace_outbox WHERE namespace = $1
"""


class PostgresExamination(PostgresSteps, Examination):
    async def examine(self) -> list[Finding]:
        try:
            return await self._read(self._examine)
        except HeadraceError as error:
            return [fail("server", f"it cannot be examined: {error}", "see above")]

    async def _examine(self, connection: PostgresConnection) -> list[Finding]:
        return [
            *await _server(connection),
            connection_finding(connection.raw),
            await _schema(connection),
            await _rights(connection, self._address.schema),
            await _tables(connection, self._address.schema),
            *await _unrelayed(connection, self._namespace),
            await _open_transactions(connection),
            self._notifications(),
            await _speed(connection),
        ]

    def _notifications(self) -> Finding:
        if self._use().pool.pooled:
            return warn(
                "notifications",
                "they do not arrive: a pooler in transaction mode is in between, so workers poll",
                "give headrace a direct connection, for faster pick-up",
            )
        return ok("notifications", "they arrive")


async def _server(connection: PostgresConnection) -> list[Finding]:
    [row] = await connection.rows(SERVER)
    version, number, standby, read_only, fsync, pages, commit, most, used = row
    return [
        _version(version, number),
        fail("role", "the server is read-only", "connect to the primary: target_session_attrs=read-write")
        if standby or read_only
        else ok("role", "the server takes writes"),
        _durability(fsync=fsync and pages, commit=commit),
        warn(
            "connections",
            f"{used} of {most} connections are in use",
            "raise max_connections, or put a pooler in front of the server",
        )
        if used > 0.9 * most
        else ok("connections", f"{most} at most"),
    ]


def _version(version: str, number: int) -> Finding:
    if number < OLDEST:
        return fail("version", f"PostgreSQL {version}", f"headrace needs {OLDEST // 10000} or later")
    return ok("version", f"PostgreSQL {version}")


def _durability(*, fsync: bool, commit: str) -> Finding:
    if not fsync:
        return warn(
            "durability", "fsync or full_page_writes is off: a crash may damage the database", "turn both on"
        )
    return ok("durability", f"synchronous_commit is {commit}")


async def _schema(connection: PostgresConnection) -> Finding:
    [(version, oldest)] = await connection.rows(READ)
    text = f"version {version}; this headrace has {CURRENT.version}"
    if oldest < CURRENT.oldest:
        return warn(
            "tables",
            f"{text}; they still have what only older versions need",
            "run `headrace schema apply URL` when no process with an older headrace is left",
        )
    return ok("tables", text)


async def _rights(connection: PostgresConnection, schema: str) -> Finding:
    [(role, missing)] = await connection.rows(MISSING, (schema, *needed_rights()))
    if missing:
        grants = "; ".join(grants_for(schema, role))
        return fail("rights", f"role {role} may not do all it must with {', '.join(missing)}", grants)
    [(closed,)] = await connection.rows(CLOSED_FUNCTIONS, (schema,))
    if closed:
        remedy = grant_of_functions(schema, role)
        return fail("rights", f"role {role} may not execute {closed} of the functions", remedy)
    return ok("rights", f"role {role} may do all that headrace needs")


async def _tables(connection: PostgresConnection, schema: str) -> Finding:
    [(size, dead, live)] = await connection.rows(TABLES, (schema,))
    text = f"{spoken_bytes(size or 0)}"
    if (dead or 0) > 100_000 and dead > 5 * (live or 0):
        return warn(
            "size",
            f"{text}; {dead:,} dead rows wait for vacuum",
            "look for a transaction that stays open, or let autovacuum run more often",
        )
    return ok("size", text)


async def _unrelayed(connection: PostgresConnection, namespace: str) -> list[Finding]:
    """An app that had its store elsewhere, and came here, may have left messages behind."""
    try:
        [(waiting, seconds)] = await connection.rows(UNRELAYED, (namespace,))
    except InsufficientPrivilege:
        return []  # the line about rights says so
    if seconds <= LONG:
        return []
    return [
        warn(
            "headrace_outbox",
            f"{waiting:,} wait in this table for a relay, the first for {seconds:,.0f} seconds",
            "run a worker or `headrace relay` of an app with outbox= and the URL of this database",
        )
    ]


async def _open_transactions(connection: PostgresConnection) -> Finding:
    [(seconds, role, sees_all)] = await connection.rows(OPEN_TRANSACTIONS)
    if seconds > LONG:
        return warn(
            "open transactions",
            f"one has been open for {seconds:,.0f} seconds: vacuum cannot remove what was deleted since then",
            "end it (pg_stat_activity shows it), or set idle_in_transaction_session_timeout",
        )
    if not sees_all:
        return ok(
            "open transactions",
            f"role {role} sees only its own: with GRANT pg_monitor it would see those of others",
        )
    return ok("open transactions", "none has been open for long")


async def _speed(connection: PostgresConnection) -> Finding:
    began = perf_counter()
    for _ in range(ROUND_TRIPS):
        await connection.rows("SELECT 1")
    return ok("speed", f"{(perf_counter() - began) / ROUND_TRIPS * 1000:.1f} ms for a round trip")
