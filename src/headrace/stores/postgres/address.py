"""The URL of a PostgreSQL store: libpq's own URL, and the name of the schema that has the tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core.errors import ConfigurationError
from headrace.core.values.credentials import Credentials

DEFAULT_SCHEMA: Final = "headrace"

#: A schema's name needs no quotes, so that people can write it in psql as it is.
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")

#: Words that need quotes all the same: kinds R and T of `pg_get_keywords()`.
_RESERVED: Final = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check
collate collation column concurrently constraint create cross current_catalog current_date
current_role current_schema current_time current_timestamp current_user default deferrable desc
distinct do else end except false fetch for foreign freeze from full grant group having ilike in
initially inner intersect into is isnull join lateral leading left like limit localtime
localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
references returning right select session_user similar some symmetric system_user table tablesample
then to trailing true union unique user using variadic verbose when where window with
"""

#: What the URL may have otherwise: seconds until a connection must be there, and how soon a peer that does
#: not answer is noticed.
DEFAULTS: Final[dict[str, str | int]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 9_000,
    "application_name": "headrace",
}


class PostgresAddress(msgspec.Struct, frozen=True):
    """`conninfo` may hold a password: only `description` is for people and logs."""

    conninfo: str
    schema: str
    description: str
    credentials: Credentials | None = None

    def __repr__(self) -> str:
        return f"<PostgresAddress {self.description}>"

    @classmethod
    def parse(cls, url: str, credentials: Credentials | None = None) -> PostgresAddress:
        rest, schema = _without_schema(url)
        try:
            words = conninfo_to_dict(rest)
        except psycopg.Error as error:
            # The error's text may repeat the URL with its password.
            raise ConfigurationError(
                "the URL of the PostgreSQL store cannot be read: it has the form"
                " postgresql://user@host:port/database?schema=headrace"
            ) from (None if "@" in rest else error)
        if credentials is not None and words.get("password"):
            raise ConfigurationError(
                "the URL of the PostgreSQL store has a password, and credentials= gives one, too"
            )
        for name, value in DEFAULTS.items():
            words.setdefault(name, value)
        return cls(make_conninfo("", **words), schema, _described(words, schema), credentials)


def _without_schema(url: str) -> tuple[str, str]:
    # The rest stays as it is written: libpq takes URLs that urllib does not, such as one without a host.
    base, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    schemas = [unquote(option.removeprefix("schema=")) for option in options if option.startswith("schema=")]
    rest = "&".join(option for option in options if not option.startswith("schema="))
    return f"{base}?{rest}" if rest else base, checked_schema(schemas[0] if schemas else DEFAULT_SCHEMA)


def checked_schema(name: str) -> str:
    """The name, if it needs no quotes in SQL."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"schema={name!r} is no name for a schema: it has small letters, digits and _, 63 at most"
        )
    if name in _RESERVED.split() or name.startswith("pg_"):
        raise ConfigurationError(
            f"schema={name!r} is a name that PostgreSQL keeps for itself: choose another"
        )
    return name


def _described(words: Mapping[str, object], schema: str) -> str:
    host = words.get("host") or "localhost"
    port = f":{words['port']}" if words.get("port") else ""
    return f"PostgreSQL {host}{port}/{words.get('dbname', '')}, schema {schema}"
