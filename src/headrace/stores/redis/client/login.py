"""The user and the password of a new connection: from the URL, or from `credentials=`."""

from __future__ import annotations

from headrace.core.runtime.login import LoginUnavailable, MalformedLogin, asked_login
from headrace.core.values.credentials import Login
from headrace.stores.redis.server.faults import CommandRefused, lost

from .address import Address


async def login_to(address: Address, server: str) -> Login | None:
    """None: the connection needs none."""
    if address.credentials is None:
        return None if not address.password else (address.username, address.password)
    try:
        return await asked_login(address.credentials, server)
    except LoginUnavailable as error:
        raise lost(str(error)) from error
    except MalformedLogin as error:
        raise CommandRefused(str(error)) from error
