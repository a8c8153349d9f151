"""Reads and writes the deferred keys of a group."""

from __future__ import annotations

from headrace.core.topics.deferred_keys import DeferredKey, DeferredKeys
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted


def read_deferred(connection: Connection, group: int) -> DeferredKeys:
    rows = unlisted(connection.value(topic_statements.LIST_DEFERRED, (group,)))
    return DeferredKeys(
        {key: DeferredKey(number, passed) for key, number, passed, _ in rows},
        {key for key, _, _, hungry in rows if hungry},
    )


def write_deferred(connection: Connection, group: int, before: DeferredKeys, after: DeferredKeys) -> None:
    """Write only the keys that have changed."""
    old, new = _rows(before), _rows(after)
    changed = [row for key, row in new.items() if row != old.get(key)]
    if changed:
        connection.change(topic_statements.WRITE_DEFERRED, (group, listed(changed)))
    gone = old.keys() - new.keys()
    if gone:
        connection.change(topic_statements.DROP_DEFERRED, (group, listed(gone)))


def _rows(deferred: DeferredKeys) -> dict[str, tuple[str, int, int, int]]:
    return {
        key: (key, each.number, each.passed, int(key in deferred.hungry))
        for key, each in deferred.keys.items()
    }
