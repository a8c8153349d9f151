"""Resolves host names in its own threads. The threads of the event loop belong to the user."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from concurrent.futures import Future

#: Lookups under way, by host name. Callers that ask for the same name share the answer. There is no lock: a
#: forked child would inherit it in the state of that moment.
_asked: dict[str, Future[list[str]]] = {}


async def addresses_of(host: str) -> list[str]:
    """The addresses of a host, the preferred one first; an OSError if it has none."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return await asyncio.wrap_future(_ask(host))
    return [host]


def _ask(host: str) -> Future[list[str]]:
    new: Future[list[str]] = Future()
    new.set_running_or_notify_cancel()  # a cancelled caller must not cancel it for others
    answer = _asked.setdefault(host, new)
    if answer is new:
        try:
            threading.Thread(target=_resolve, args=(host, answer), daemon=True).start()
        except BaseException as error:
            _asked.pop(host, None)
            answer.set_exception(error)
    return answer


def _resolve(host: str, answer: Future[list[str]]) -> None:
    try:
        # For text Python imports a codec here, and a fork may leave the lock of this import locked.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    except BaseException as error:
        _asked.pop(host, None)
        answer.set_exception(error)
    else:
        _asked.pop(host, None)
        answer.set_result(addresses)


if hasattr(os, "register_at_fork"):
    # The threads that look up names do not run in a forked child.
    os.register_at_fork(after_in_child=_asked.clear)
