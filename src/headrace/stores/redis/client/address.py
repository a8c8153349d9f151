"""Reads the URL of a server: `redis://user:password@host:6379/0`, `rediss://`, `unix://`.

Also reads the URL of a server that sentinels watch (`redis+sentinel://host1,host2/master`), and of a cluster
by some of its nodes (`redis+cluster://host1,host2`).
"""

from __future__ import annotations

import functools
import ssl
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.values.credentials import Credentials

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379

#: What may follow the plus sign of a scheme.
SENTINEL, CLUSTER = "sentinel", "cluster"

#: Schemes that mean TLS.
_TLS = ("rediss", "valkeys")

#: Options after the question mark, and options that only make sense with TLS.
_PLAIN_OPTIONS = ("db",)
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_cert_reqs")

_EXAMPLES = {
    "unix": "/run/redis.sock?db=0",
    SENTINEL: "user:password@host1:26379,host2,host3/master/0",
    CLUSTER: "user:password@host1:6379,host2",
}
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_VERIFIES = {"required": True, "none": False}


class Tls(msgspec.Struct, frozen=True):
    """How to verify the server, and which certificate to show. The default verifies everything."""

    ca_certs: str | None = None  # a file; None: the system's authorities
    certfile: str | None = None
    keyfile: str | None = None
    verifies: bool = True
    checks_name: bool = True


#: A host and a port.
HostPort = tuple[str, int]


class SentinelAddresses(msgspec.Struct, frozen=True):
    """Where the sentinels are, the name by which they know the primary, and the user that asks them."""

    places: tuple[HostPort, ...]
    master: str
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"{self.master} behind the sentinels {_listed(self.places)}"


class Address(msgspec.Struct, frozen=True):
    """The place of the server, and the user. Its text never shows the password.

    With `sentinels`, they know the place. With `nodes`, it is one of a cluster. Then `host` is empty until a
    place was found. With `credentials`, each connection asks them for the user and the password.
    """

    host: str = "localhost"
    port: int = DEFAULT_PORT
    path: str | None = None
    tls: Tls | None = None
    username: str | None = None
    password: str | None = None
    database: int = 0
    sentinels: SentinelAddresses | None = None
    nodes: tuple[HostPort, ...] = ()
    credentials: Credentials | None = None

    def __str__(self) -> str:
        place = self.path or (f"{self.host}:{self.port}" if self.host else self._known_by)
        return f"{place}/{self.database}" if self.database else place

    __repr__ = __str__

    @property
    def title(self) -> str:
        """The name of the server in messages, before words such as `cannot be reached`."""
        return f"the {'cluster' if self.nodes and not self.host else 'server'} at {self}"

    @property
    def _known_by(self) -> str:
        if self.sentinels is not None:
            return repr(self.sentinels)
        return _listed(self.nodes)

    def at(self, place: HostPort) -> Address:
        """This address with the place that was found."""
        return msgspec.structs.replace(self, host=place[0], port=place[1])

    def of_sentinel(self, place: HostPort) -> Address:
        """The address of one of the sentinels."""
        assert self.sentinels is not None
        username, password = self.sentinels.username, self.sentinels.password
        return Address(place[0], place[1], tls=self.tls, username=username, password=password)

    def tls_context(self) -> ssl.SSLContext | None:
        return _context(self.tls) if self.tls else None


def parse_address(url: str, credentials: Credentials | None = None) -> Address:
    parts = _split(url)
    if credentials is not None and (parts.username or parts.password):
        raise _unusable(parts.scheme, "it has a user or a password, and credentials= gives them, too")
    scheme, _, kind = parts.scheme.partition("+")
    has_tls = scheme in _TLS
    options = _options(parts, _known_options(kind, has_tls=has_tls))
    if parts.username and not parts.password:
        raise _unusable(parts.scheme, "there is a user but no password; a password alone is :password@")
    asking = Address(
        tls=_tls(parts, options) if has_tls else None,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        credentials=credentials,
    )
    match kind:
        case "sentinel":
            address = _behind_sentinels(parts, options, asking)
        case "cluster":
            address = _of_cluster(parts, options, asking)
        case _:
            address = _of_one_server(parts, options, asking)
    if address.path == "":
        raise _unusable(parts.scheme, "the socket's path is missing")
    if address.tls is not None:
        _check_files(address.tls)
    return address


def _known_options(kind: str, *, has_tls: bool) -> tuple[str, ...]:
    sentinel = _SENTINEL_OPTIONS if kind == SENTINEL else ()
    return (*_PLAIN_OPTIONS, *sentinel, *(_TLS_OPTIONS if has_tls else ()))


def _of_one_server(parts: SplitResult, options: dict[str, str], asking: Address) -> Address:
    is_socket = parts.scheme == "unix"
    return msgspec.structs.replace(
        asking,
        host=parts.hostname or "localhost",
        port=_port(parts),
        path=unquote(parts.path) if is_socket else None,
        database=_database(parts, options, "" if is_socket else parts.path.strip("/")),
    )


def _behind_sentinels(parts: SplitResult, options: dict[str, str], asking: Address) -> Address:
    master, _, database = parts.path.strip("/").partition("/")
    if not master:
        raise _unusable(parts.scheme, "the name of the primary is missing, which the sentinels know it by")
    sentinels = SentinelAddresses(
        _places(parts, SENTINEL_PORT),
        unquote(master),
        options.get("sentinel_username"),
        options.get("sentinel_password"),
    )
    number = _database(parts, options, database)
    return msgspec.structs.replace(asking, host="", database=number, sentinels=sentinels)


def _of_cluster(parts: SplitResult, options: dict[str, str], asking: Address) -> Address:
    if _database(parts, options, parts.path.strip("/")):
        raise _unusable(parts.scheme, "a cluster has no database but 0")
    return msgspec.structs.replace(asking, host="", nodes=_places(parts, DEFAULT_PORT))


def _places(parts: SplitResult, default_port: int) -> tuple[HostPort, ...]:
    """Read hosts, with or without a port, with commas between them."""
    places: list[HostPort] = []
    for text in parts.netloc.rpartition("@")[2].split(","):
        try:
            one = urlsplit(f"//{text}")
            places.append((one.hostname or "localhost", one.port or default_port))
        except ValueError:
            raise _unusable(parts.scheme, "one of the hosts is no name or address with a port") from None
    return tuple(places)


def _listed(places: tuple[HostPort, ...]) -> str:
    return ",".join(f"{host}:{port}" for host, port in places)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # the text of this error would show the URL
        raise _unusable(url.partition(":")[0], "the host is no name and no address") from None
    if parts.fragment:
        raise _unusable(parts.scheme, "a # in a password is written %23")
    return parts


def _options(parts: SplitResult, known: tuple[str, ...]) -> dict[str, str]:
    try:
        options = (
            dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
        )
    except ValueError:
        raise _unusable(parts.scheme, "what follows the question mark is not name=value") from None
    for name in options:
        if name in _TLS_OPTIONS and name not in known:
            raise _unusable(parts.scheme, f"the option {name} is for rediss://")
        if name not in known:
            raise _unusable(parts.scheme, f"the option {name!r} is none of {', '.join(known)}")
    return options


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:
        raise _unusable(parts.scheme, "the port is no number up to 65535") from None


def _database(parts: SplitResult, options: dict[str, str], text: str) -> int:
    """The number after the slash, or `?db=`. A socket needs `?db=`, since its path names the file."""
    text = options.get("db", text)
    if text and not (text.isascii() and text.isdecimal()):
        raise _unusable(parts.scheme, "the database is no number")
    return int(text or 0)


def _tls(parts: SplitResult, options: dict[str, str]) -> Tls:
    certfile, keyfile = options.get("ssl_certfile"), options.get("ssl_keyfile")
    if keyfile and not certfile:
        raise _unusable(parts.scheme, "ssl_keyfile is nothing without ssl_certfile")
    return Tls(
        ca_certs=options.get("ssl_ca_certs"),
        certfile=certfile,
        keyfile=keyfile,
        verifies=_choice(parts, options, "ssl_cert_reqs", _VERIFIES),
        checks_name=_choice(parts, options, "ssl_check_hostname", _FLAGS),
    )


def _choice(parts: SplitResult, options: dict[str, str], name: str, meanings: dict[str, bool]) -> bool:
    text = options.get(name)
    if text is None:
        return True
    if text.lower() not in meanings:
        raise _unusable(parts.scheme, f"{name} is one of {', '.join(meanings)}")
    return meanings[text.lower()]


def _check_files(tls: Tls) -> None:
    """Raise an error for an unreadable certificate when the URL is given, not at the first connection."""
    try:
        _context(tls)
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (tls.ca_certs, tls.certfile, tls.keyfile)))
        raise ConfigurationError(
            f"the certificates of the store's URL cannot be used: {files} ({error})"
        ) from error


@functools.cache
def _context(tls: Tls) -> ssl.SSLContext:
    # Reading the system's certificates is slow, so it is done once.
    context = ssl.create_default_context(cafile=tls.ca_certs)
    if tls.certfile:
        context.load_cert_chain(tls.certfile, tls.keyfile, password="")  # never ask on a terminal  # nosec B106 # none is set
    if not tls.checks_name or not tls.verifies:
        context.check_hostname = False
    if not tls.verifies:
        context.verify_mode = ssl.CERT_NONE
    return context


def _unusable(scheme: str, why: str) -> ConfigurationError:
    # The URL is not shown, because it may hold a password.
    example = _EXAMPLES.get(scheme.partition("+")[2] or scheme, "user:password@host:6379/0")
    return ConfigurationError(f"the store's URL cannot be read: {why}; write it like {scheme}://{example}")
