"""Resolves host names in its own threads. The threads of the event loop belong to the user."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from concurrent.futures import Future

#: Lookups under way, by process and host name. Callers that ask for the same name share the answer.
_asked: dict[tuple[int, str], Future[list[str]]] = {}
_lock = threading.Lock()


async def addresses_of(host: str) -> list[str]:
    """The addresses of a host, the preferred one first; an OSError if it has none."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return await asyncio.wrap_future(_ask(host))
    return [host]


def _ask(host: str) -> Future[list[str]]:
    key = (os.getpid(), host)
    with _lock:
        answer = _asked.get(key)
        if answer is None:
            answer = _asked[key] = Future()
            answer.set_running_or_notify_cancel()  # a cancelled caller must not cancel it for others
            threading.Thread(target=_resolve, args=(key, answer), daemon=True).start()
    return answer


def _resolve(key: tuple[int, str], answer: Future[list[str]]) -> None:
    try:
        found = socket.getaddrinfo(key[1], None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    except BaseException as error:
        _asked.pop(key, None)
        answer.set_exception(error)
    else:
        _asked.pop(key, None)
        answer.set_result(addresses)
