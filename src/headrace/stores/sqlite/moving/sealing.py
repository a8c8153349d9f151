"""Seals the store: refuses what is new, sets the content aside, and deletes it in the end."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal, decode_seal, encode_seal
from headrace.core.records.control import MissedNotice
from headrace.stores.sql.rows.moved_rows import ASIDE, set_aside_of
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import moving_statements
from headrace.stores.sqlite.threads.transaction import Transaction

#: Rows that one transaction deletes.
DELETED: Final = 2000


def read_seal(connection: Connection, namespace: str) -> Seal | None:
    content = connection.value(moving_statements.READ_SEAL, (namespace,))
    return decode_seal(content) if content else None


def write_seal(transaction: Transaction, seal: Seal | None) -> None:
    connection, namespace = transaction.connection, transaction.namespace
    if seal is None:
        connection.change(moving_statements.FORGET_SEAL, (namespace,))
        connection.change(moving_statements.UNSEAL_STREAMS, (namespace,))
    else:
        connection.change(moving_statements.WRITE_SEAL, (namespace, encode_seal(seal)))
        connection.change(moving_statements.SEAL_STREAMS, (namespace,))
        if seal.stage == "moving":
            connection.change(moving_statements.SET_ASIDE, (namespace, namespace + ASIDE))
    transaction.announce(MissedNotice())


def delete_some(transaction: Transaction) -> bool:
    """Delete some rows of what was set aside. Returns whether something is left."""
    connection, aside = transaction.connection, transaction.namespace + ASIDE
    left = DELETED
    for (number,) in connection.rows(moving_statements.LIST_NUMBERS, (aside,)):
        for statement in moving_statements.FORGET_SOME:
            left -= connection.change(statement, (number, left))
            if left <= 0:
                return True
        for statement in moving_statements.FORGET_STREAM:
            connection.change(statement, (number,))
    return False


def list_aside(connection: Connection, namespace: str) -> list[SetAside]:
    found: list[SetAside] = []
    for number, kind, name in connection.rows(moving_statements.LIST_ASIDE, (namespace + ASIDE,)):
        places = dict(connection.rows(moving_statements.COUNT_PLACES, (number,)))
        events = connection.value(moving_statements.COUNT_EVENTS, (number,))
        found.append(set_aside_of(Stream(kind, name), places, events))
    return found
