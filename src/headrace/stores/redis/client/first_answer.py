"""Asks servers one after another until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.stores.redis.server.faults import lost

from .address import Address, HostPort
from .connection import Link

#: Seconds within which a server must accept the connection and answer. After that the next one is asked.
PATIENCE = 1.0

T = TypeVar("T")


async def first_answer(
    question: bytes,
    asked: Iterable[tuple[HostPort, Address]],
    *,
    noun: str,
    read: Callable[[HostPort, Any], T],
    no_answer: Callable[[list[HeadraceError]], BackendUnavailable],
) -> T:
    """What `read` makes of the first reply. A server whose reply it refuses is passed over, too.

    `no_answer` makes the error from the errors of all servers."""
    errors: list[HeadraceError] = []
    for place, address in asked:
        link = Link(address)
        try:
            async with asyncio.timeout(PATIENCE):
                [reply] = await link.ask(question)
            return read(place, reply)
        except TimeoutError:
            errors.append(lost(f"the {noun} at {place[0]}:{place[1]} does not answer in time"))
        except HeadraceError as error:
            errors.append(error)
        finally:
            link.drop()
    raise no_answer(errors)
