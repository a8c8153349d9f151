"""Builds the first commands on a connection, and checks their answers."""

from __future__ import annotations

from typing import Any

from hiredis import ReplyError

from headrace.core.encoding.decoding import text_of
from headrace.core.values.credentials import Login
from headrace.stores.redis.server.faults import error_of, is_denied, lost

from .address import Address


def handshake(address: Address, login: Login | None) -> list[tuple[str | int, ...]]:
    """The first commands on a connection. The last one asks for the client's id.

    The answer of a sentinel may be out of date, so the server is asked for its role.
    """
    commands: list[tuple[str | int, ...]] = []
    if login is not None:
        user, password = login
        commands.append(("AUTH", *((user,) if user else ()), password))
    if address.database:
        commands.append(("SELECT", address.database))
    if address.sentinels is not None:
        commands.append(("ROLE",))
    commands += [("CLIENT", "SETNAME", "headrace"), ("CLIENT", "ID")]
    return commands


def check_handshake(replies: list[Any], server: str, *, asks_anew: bool) -> None:
    """Raise all errors but missing rights: a user that may not name a connection or ask for its id can still
    work. `asks_anew`: each attempt asks `credentials=`, so the next one may bring another password."""
    if asks_anew and isinstance(replies[0], ReplyError):
        raise lost(f"{server} refuses the user or the password that credentials= gave ({replies[0]})")
    for reply in replies:
        if isinstance(reply, ReplyError) and not is_denied(reply):
            raise error_of(reply, server)
        if isinstance(reply, list) and reply[:1] != [b"master"]:
            role = text_of(reply[0]) if reply and isinstance(reply[0], bytes) else "server of another kind"
            raise lost(f"{server} is not where the sentinels say: a {role} answers there")
