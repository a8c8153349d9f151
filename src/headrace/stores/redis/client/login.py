"""Asks `credentials=` for the user and the password of a new connection."""

from __future__ import annotations

import asyncio
import inspect

from headrace.core.runtime.daemon_thread import in_daemon_thread
from headrace.core.values.credentials import Credentials, Login
from headrace.stores.redis.faults import CommandRefused, lost

from .address import Address

#: Seconds within which the function must answer. It may have to ask a service elsewhere.
PATIENCE = 10.0


async def login_to(address: Address, server: str) -> Login | None:
    """The user and the password for a new connection; None: it needs none.

    The function of the app may fail for the same reasons as a connection, and the next attempt asks it again.
    """
    if address.credentials is None:
        return None if not address.password else (address.username, address.password)
    try:
        async with asyncio.timeout(PATIENCE):
            given = await _asked(address.credentials)
    except TimeoutError as error:
        raise lost(f"credentials= gave no password for {server} within {PATIENCE:g} s") from error
    except Exception as error:
        raise lost(f"credentials= gave no password for {server}: {type(error).__name__}: {error}") from error
    return _checked(given)


async def _asked(credentials: Credentials) -> object:
    if inspect.iscoroutinefunction(credentials):
        return await credentials()
    # In a thread: it may wait for a service, and the event loop must not.
    given = await in_daemon_thread(credentials)
    return await given if inspect.isawaitable(given) else given


def _checked(given: object) -> Login:
    match given:
        case (None | str() as user, str(password)) if password:
            return user or None, password
    raise CommandRefused(
        "credentials= must return (user, password), two texts, with None for the default user; it returned "
        f"a {type(given).__name__} of another form"
    )
