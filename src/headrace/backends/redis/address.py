"""The address of a server, as users write it: `redis://user:password@host:6379/0`, `rediss://`, `unix://`."""

from __future__ import annotations

import functools
import ssl
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from headrace.core.errors import ConfigurationError

DEFAULT_PORT = 6379


class Address(msgspec.Struct, frozen=True):
    """Where the server is and who asks. Its text never shows the password."""

    host: str = "localhost"
    port: int = DEFAULT_PORT
    path: str | None = None
    tls: bool = False
    username: str | None = None
    password: str | None = None
    database: int = 0

    def __str__(self) -> str:
        place = self.path or f"{self.host}:{self.port}"
        return f"{place}/{self.database}" if self.database else place

    __repr__ = __str__

    def tls_context(self) -> ssl.SSLContext | None:
        """Certificates and host names are always verified."""
        return _verifying_context() if self.tls else None


def parse_address(url: str) -> Address:
    parts = urlsplit(url)
    try:
        port = parts.port or DEFAULT_PORT
        database = _database(parts.path, parts.query, is_socket=parts.scheme == "unix")
    except ValueError:
        raise _unusable(parts.scheme) from None
    address = Address(
        host=parts.hostname or "localhost",
        port=port,
        path=unquote(parts.path) if parts.scheme == "unix" else None,
        tls=parts.scheme == "rediss",
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        database=database,
    )
    if address.path == "" or (address.username and not address.password):
        raise _unusable(parts.scheme)
    return address


@functools.cache
def _verifying_context() -> ssl.SSLContext:
    # Reading the system's certificates takes long enough to do it once.
    return ssl.create_default_context()


def _database(path: str, query: str, *, is_socket: bool) -> int:
    """The number behind the slash, or `?db=` which a socket needs, since its path is the file's."""
    options = parse_qs(query, strict_parsing=True) if query else {}
    if set(options) - {"db"}:
        raise ValueError("unknown option")
    text = options["db"][0] if "db" in options else "" if is_socket else path.strip("/")
    number = int(text or 0)
    if number < 0:
        raise ValueError("negative database")
    return number


def _unusable(scheme: str) -> ConfigurationError:
    # The URL itself may hold a password and is not shown.
    example = "unix:///run/redis.sock?db=0" if scheme == "unix" else f"{scheme}://user:password@host:6379/0"
    return ConfigurationError(f"the store's URL cannot be read: write it like {example}")
