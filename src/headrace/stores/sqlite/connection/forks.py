"""Closes all connections of this process before a fork, and lets them open again after it.

SQLite remembers the locks of a process, so a child would assume that it holds its parent's locks. Then the
parent may remove the write-ahead log with what the child has written since (sqlite.org/howtocorrupt.html,
2.6). Closed connections open again when they are needed.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .connection import Connection

#: Seconds for which a fork waits until the user of a connection has finished.
PATIENCE: Final = 6.0

#: Every connection of this process.
connections: weakref.WeakSet[Connection] = weakref.WeakSet()

#: Held while a connection opens, and during a fork.
opening = threading.Lock()

#: Files that were open during the fork that created this process.
inherited: set[Path] = set()

#: The connections that a running fork has closed and holds.
_held: list[Connection] = []


def _before() -> None:
    opening.acquire()
    for connection in list(connections):
        if _take(connection):
            connection.close()
            _held.append(connection)


def _take(connection: Connection) -> bool:
    """Acquire a connection. False: its user does not finish in time, or waits for the end of the fork to open
    its file."""
    until = time.monotonic() + PATIENCE
    connection.is_wanted = True
    try:
        while not connection.in_use.acquire(timeout=0.01):
            if connection.waits_to_open or time.monotonic() > until:
                return False
    finally:
        connection.is_wanted = False
    return True


def _after_in_parent() -> None:
    while _held:
        _held.pop().in_use.release()
    opening.release()


def _after_in_child() -> None:
    _held.clear()
    opening.release()
    for connection in list(connections):
        connection.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
