"""Seals the store: refuses what is new, sets the content aside, and deletes it in the end."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal, decode_seal, encode_seal
from headrace.core.records.control import MissedNotice
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import moving_statements
from headrace.stores.sql.rows.moved_rows import ASIDE, set_aside_of

#: Rows that one transaction deletes.
DELETED: Final = 10_000


async def read_seal(connection: PostgresConnection, namespace: str) -> Seal | None:
    rows = await connection.rows(moving_statements.READ_SEAL, (namespace,))
    return decode_seal(rows[0][0]) if rows else None


async def write_seal(transaction: PostgresTransaction, seal: Seal | None) -> None:
    namespace = transaction.namespace
    if seal is None:
        await transaction.change(moving_statements.FORGET_SEAL, (namespace,))
        await transaction.change(moving_statements.UNSEAL_STREAMS, (namespace,))
    else:
        row = (namespace, seal.target, seal.stage == "draining", encode_seal(seal))
        await transaction.change(moving_statements.WRITE_SEAL, row)
        await transaction.change(moving_statements.SEAL_STREAMS, (namespace,))
    transaction.announce(MissedNotice())


async def set_aside(transaction: PostgresTransaction) -> None:
    names = (transaction.namespace, transaction.namespace + ASIDE)
    await transaction.change(moving_statements.SEAL_STREAMS, names[:1])
    await transaction.change(moving_statements.SET_ASIDE, names)


async def open_transactions(connection: PostgresConnection) -> set[str]:
    """The transactions of other sessions. One with an old snapshot may not see the seal."""
    return {id for (id,) in await connection.rows(moving_statements.OPEN_TRANSACTIONS)}


async def delete_some(transaction: PostgresTransaction) -> bool:
    """Delete some rows of what was set aside. Returns whether something is left."""
    left = DELETED
    aside = (transaction.namespace + ASIDE,)
    for (number,) in await transaction.rows(moving_statements.LIST_NUMBERS, aside):
        for statement in moving_statements.FORGET_SOME:
            left -= await transaction.change(statement, (number, left))
            if left <= 0:
                return True
        for statement in moving_statements.FORGET_STREAM:
            await transaction.change(statement, (number,))
    return False


async def list_aside(connection: PostgresConnection, namespace: str) -> list[SetAside]:
    found: list[SetAside] = []
    for number, kind, name in await connection.rows(moving_statements.LIST_ASIDE, (namespace + ASIDE,)):
        rows = await connection.rows(moving_statements.COUNT_PLACES, (number,))
        [(events,)] = await connection.rows(moving_statements.COUNT_EVENTS, (number,))
        found.append(set_aside_of(Stream(kind, name), {place: count for place, count in rows}, events))
    return found
