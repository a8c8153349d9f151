"""The format of what this version stores. A namespace that another format has written is refused, before
anything in it is touched."""

from __future__ import annotations

import re

from headrace.core.errors import ConfigurationError
from headrace.stores.redis.keys import FORMAT

from .server import RedisServer


async def check_format(server: RedisServer) -> None:
    """Refuse a namespace of another format. One that says nothing is new, or its server was flushed. What is
    no format was written by another program, and stops nothing."""
    (found,) = await server.commands(("GET", server.keys.format), tolerates=lambda _: True)
    if isinstance(found, bytes) and found != FORMAT.encode() and re.fullmatch(rb"v\d{1,9}", found):
        raise ConfigurationError(
            f"{server.server_name} holds jobs in format {found.decode()} in the namespace"
            f" {server.namespace!r}, and this headrace knows format {FORMAT}: run the version that wrote"
            " them, or use another namespace"
        )
