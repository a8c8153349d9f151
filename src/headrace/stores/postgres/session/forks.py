"""Takes the connections of a parent process from a forked child.

The two share each socket. A process that closes a connection tells the server that the session ends. A
child that does so would end the session of its parent.
"""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from .connection import PostgresConnection

#: Every connection of this process.
connections: Final[weakref.WeakSet[PostgresConnection]] = weakref.WeakSet()


def _after_in_child() -> None:
    for connection in list(connections):
        with suppress(psycopg.Error):  # it is closed already
            _disconnect(connection.raw.fileno())
    connections.clear()


def _disconnect(number: int) -> None:
    """Let the number stand for a socket without a connection. Whatever uses it then fails, and closes only
    the child's own socket."""
    with socket.socket() as unconnected:
        os.dup2(unconnected.fileno(), number, inheritable=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
