"""Asks `credentials=` for the user and the password of a new connection."""

from __future__ import annotations

import asyncio
import inspect

from headrace.core.values.credentials import Credentials, Login

from .daemon_thread import in_daemon_thread

#: Seconds within which the function must answer. It may have to ask a service elsewhere.
PATIENCE = 10.0


class LoginUnavailable(Exception):
    """The function of the app gave no password. It may fail for the same reasons as a connection, and the
    next attempt asks it again."""


class MalformedLogin(Exception):
    """The function of the app gave something else than a user and a password: asking again does not help."""


async def asked_login(credentials: Credentials, server: str) -> Login:
    try:
        async with asyncio.timeout(PATIENCE):
            given = await _asked(credentials)
    except TimeoutError as error:
        raise LoginUnavailable(f"credentials= gave no password for {server} within {PATIENCE:g} s") from error
    except (Exception, SystemExit) as error:  # the latter would end the event loop
        text = f"credentials= gave no password for {server}: {type(error).__name__}: {error}"
        raise LoginUnavailable(text) from error
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
    raise MalformedLogin(
        "credentials= must return (user, password), two texts, with None for the default user; it returned "
        f"a {type(given).__name__} of another form"
    )
