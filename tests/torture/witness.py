"""The witness of jobs in transactions: the orders that the producers committed beside them.

A producer that was killed around its commit has not said how it ended. The table of orders says it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from .facts import Recorder, read_all
from .postgres_commands import run
from .shops import OUTBOX_FILE, PostgresShop, SqliteShop
from .stores import TortureStore


def testify(store: TortureStore, folder: Path, recorder: Recorder) -> None:
    """Write down how each transaction ended whose producer did not."""
    committed = _committed(store, folder / OUTBOX_FILE)
    facts = list(read_all(folder))
    planned = [(fact.message, fact.plan) for fact in facts if fact.kind == "invoked"]
    invoked = {message for message, plan in planned if plan and plan.task == "charge"}
    accepted = {fact.message for fact in facts if fact.kind == "accepted"}
    refused = {fact.message for fact in facts if fact.kind == "refused"}
    for message in sorted(committed.keys() - accepted):
        recorder.write("accepted", message=message, job=committed[message])
    for message in sorted(invoked - committed.keys() - refused):
        recorder.write("refused", message=message, value="never committed")
    for message in sorted((accepted & invoked) - committed.keys()):
        recorder.write("left", value=f"the order of {message} was committed, and is gone")


def _committed(store: TortureStore, file: Path) -> dict[str, str]:
    """The job of each order that was committed, by its message."""
    if store.family == "postgres":
        return dict(run(store.postgres, f"SELECT message, job FROM {PostgresShop.table}"))
    connection = sqlite3.connect(file)
    orders: dict[str, str] = dict(
        connection.execute(f"SELECT message, job FROM {SqliteShop.table}").fetchall()
    )
    connection.close()
    return orders
