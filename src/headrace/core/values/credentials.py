"""`credentials=`: a function that gives the user and the password for each new connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.core.errors import ConfigurationError

#: A user (None: the default one) and a password.
Login = tuple[str | None, str]

#: Called for each new connection. A plain function runs in a thread, an `async def` on the event loop of the
#: connection.
Credentials = Callable[[], Login | Awaitable[Login]]


def checked_credentials(given: Credentials | None) -> Credentials | None:
    if given is None or callable(given):
        return given
    # The value is not shown: it may be a password.
    raise ConfigurationError(
        f"credentials= takes a function that gives (user, password), not a {type(given).__name__}; a "
        "password that never changes goes into the URL"
    )


def without_credentials(given: Credentials | None, store: str) -> None:
    """Refuse credentials for a store that has no users."""
    if given is not None:
        raise ConfigurationError(f"{store} has no users and passwords: leave out credentials=")
