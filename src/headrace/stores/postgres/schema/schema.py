"""Brings the tables of a schema up to date, under a lock that all processes share.

In the table `meta`, `version` is the version of the tables, and `oldest` the oldest version whose processes
still work on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import psycopg
from psycopg import errors

from headrace.core.errors import ConfigurationError
from headrace.stores.postgres.address import PostgresAddress, checked_schema
from headrace.stores.postgres.faults import unavailable
from headrace.stores.postgres.session.connection import PostgresConnection

from .grants import grants_for
from .migrations import CURRENT, Migrations

#: Milliseconds to wait for the lock of a table, and how often. Steps of workers wait behind a change that
#: waits, so it must not wait for long.
LOCK_TIMEOUT: Final = 1000
ATTEMPTS: Final = 30

#: Seconds between two attempts.
PAUSE: Final = 1.0

CREATE_SCHEMA: Final = "CREATE SCHEMA IF NOT EXISTS {schema}"

META: Final = """
CREATE TABLE IF NOT EXISTS headrace.meta (
    version integer NOT NULL, oldest integer NOT NULL, id text NOT NULL);
INSERT INTO headrace.meta (version, oldest, id) SELECT 0, 0, gen_random_uuid()::text
WHERE NOT EXISTS (SELECT FROM headrace.meta)
"""

READ: Final = "SELECT version, oldest FROM headrace.meta"

#: What tells this database from others, whatever leads to it: names, addresses, poolers.
READ_ID: Final = "SELECT id FROM headrace.meta"

WRITE_VERSION: Final = "UPDATE headrace.meta SET version = {version}"
WRITE_OLDEST: Final = "UPDATE headrace.meta SET oldest = {oldest}"

EXISTS: Final = "SELECT to_regclass('headrace.meta') IS NOT NULL"

#: Held by every process that is connected, for its version.
PRESENT: Final = "hashtextextended('headrace version {version} in {schema}', 0)"


class SchemaState(NamedTuple):
    version: int
    oldest: int


# --- as text ----------------------------------------------------------------------------------------------


def script(schema: str, from_version: int = 0, migrations: Migrations = CURRENT) -> str:
    """All statements from a version to the current one, for people who migrate by hand."""
    checked_schema(schema)
    expand, contract = migrations.expand[from_version:], migrations.contract_after(from_version)
    write_version = WRITE_VERSION.format(version=migrations.version)
    write_oldest = WRITE_OLDEST.format(oldest=migrations.oldest)
    if from_version == 0:
        new = (CREATE_SCHEMA.format(schema=schema), META)
        return _transaction(schema, *new, *expand, *contract, write_version, write_oldest)
    text = _transaction(schema, *expand, write_version)
    if contract:
        rest = _transaction(schema, *contract, write_oldest)
        text += f"-- Run the rest when no process with an older headrace is left.\n{rest}"
    return text


def _transaction(schema: str, *statements: str) -> str:
    ended = [statement.strip().rstrip(";") + ";\n" for statement in statements]
    text = "\n".join(["BEGIN;", f"{lock_of(schema)};", *ended, "COMMIT;\n"])
    return text.replace("headrace.", f"{schema}.")


def lock_of(schema: str) -> str:
    """Only one process at a time changes the tables."""
    return f"SELECT pg_advisory_xact_lock(hashtextextended('headrace schema {schema}', 0))"  # nosec B608 # a checked name


def presence_of(schema: str, version: int = CURRENT.version) -> str:
    """The number of the lock that a connected process of this version holds."""
    return PRESENT.format(schema=schema, version=version)


# --- by a command -----------------------------------------------------------------------------------------


class AppliedSchema(NamedTuple):
    """`contracted`: nothing is left that only older processes need."""

    version: int
    contracted: bool


async def apply(address: PostgresAddress, migrations: Migrations = CURRENT) -> AppliedSchema:
    """Make the tables, or bring them up to date as far as connected processes allow it."""
    try:
        connection = await PostgresConnection.open(address)
        try:
            await bring_up_to_date(connection, address, migrations)
            contracted = await contract(connection, address, migrations)
        finally:
            await connection.close()
    except psycopg.Error as error:
        raise unavailable(address.description, error) from error
    return AppliedSchema(migrations.version, contracted)


# --- applied ----------------------------------------------------------------------------------------------


async def bring_up_to_date(
    connection: PostgresConnection, address: PostgresAddress, migrations: Migrations = CURRENT
) -> None:
    """Make the tables, or expand them."""
    try:
        state = await read_state(connection)
    except errors.InsufficientPrivilege as error:
        [(role,)] = await connection.rows("SELECT current_user")
        raise ConfigurationError(
            f"{address.description}: role {role} may not use the tables: let their owner run "
            + "; ".join(grants_for(address.schema, role))
        ) from error
    if state is not None and state.oldest > migrations.version:
        raise ConfigurationError(
            f"{address.description}: its tables are of version {state.version}, which this headrace does not"
            f" know (it has {migrations.version}): install a newer one"
        )
    if state is not None and state.version >= migrations.version:
        return
    try:
        await _in_turn(connection, address, lambda: _expand(connection, address, migrations))
    except errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"{address.description}: the tables are missing or older than this version of headrace, and this"
            " role may not change them: run `headrace schema apply URL` as a role that may"
        ) from error


async def contract(
    connection: PostgresConnection, address: PostgresAddress, migrations: Migrations = CURRENT
) -> bool:
    """Remove what only older processes need. False: one of these is connected, and nothing was done."""
    state = await read_state(connection)
    if state is None or state.oldest >= migrations.oldest:
        return True
    answers: list[bool] = []

    async def run() -> None:
        answers.append(await _contract(connection, address, migrations))

    await _in_turn(connection, address, run)
    return answers[-1]


async def read_state(connection: PostgresConnection) -> SchemaState | None:
    """None: there are no tables."""
    [(exists,)] = await connection.rows(EXISTS)
    if not exists:
        return None
    [row] = await connection.rows(READ)
    return SchemaState(*row) if row[0] else None


async def _expand(connection: PostgresConnection, address: PostgresAddress, migrations: Migrations) -> None:
    [(exists,)] = await connection.rows("SELECT to_regnamespace($1) IS NOT NULL", (address.schema,))
    if not exists:
        await connection.run(CREATE_SCHEMA.format(schema=address.schema))
    await connection.run(META)
    [row] = await connection.rows(READ)
    state = SchemaState(*row)
    for text in migrations.expand[state.version :]:
        await connection.run(text)
    if state.version < migrations.version:
        await connection.change(WRITE_VERSION.format(version=migrations.version))
    if state.version == 0:
        await _remove(connection, migrations, 0)


async def _contract(connection: PostgresConnection, address: PostgresAddress, migrations: Migrations) -> bool:
    [row] = await connection.rows(READ)
    state = SchemaState(*row)
    for version in range(state.oldest, migrations.oldest):
        presence = presence_of(address.schema, version)
        [(alone,)] = await connection.rows(f"SELECT pg_try_advisory_xact_lock({presence})")  # nosec B608 # a checked name
        if not alone:
            return False
    await _remove(connection, migrations, state.oldest)
    return True


async def _remove(connection: PostgresConnection, migrations: Migrations, oldest: int) -> None:
    for text in migrations.contract_after(oldest):
        await connection.run(text)
    await connection.change(WRITE_OLDEST.format(oldest=migrations.oldest))


async def _in_turn(
    connection: PostgresConnection, address: PostgresAddress, change: Callable[[], Awaitable[None]]
) -> None:
    """Run a change in a transaction, again when a table was in use for too long."""
    for attempt in range(ATTEMPTS):
        try:
            await connection.run(f"BEGIN; {lock_of(address.schema)}")
            await connection.run(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT}; SET LOCAL enable_seqscan = on")
            await change()
            await connection.change("COMMIT")
            return
        except psycopg.Error as error:
            if connection.is_usable:
                await connection.change("ROLLBACK")
            if not isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected):
                raise
            if attempt == ATTEMPTS - 1:
                raise
        await asyncio.sleep(PAUSE)
