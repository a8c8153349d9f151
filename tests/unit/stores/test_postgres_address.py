"""The URL of a PostgreSQL store, and the errors that users see."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from headrace.core.errors import BackendUnavailable, ChangesRefused, ConfigurationError, RequestRefused
from headrace.stores import open_store
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.faults import is_lost, unavailable


def test_the_schema_is_taken_out_of_the_url() -> None:
    address = PostgresAddress.parse("postgresql://ada@db:5433/shop?schema=jobs&sslmode=require")
    assert address.schema == "jobs"
    assert "sslmode=require" in address.conninfo
    assert address.description == "PostgreSQL db:5433/shop, schema jobs"


def test_the_default_schema_is_headrace() -> None:
    assert PostgresAddress.parse("postgresql://localhost/shop").schema == "headrace"


def test_several_hosts_stay_in_their_order() -> None:
    address = PostgresAddress.parse("postgresql://a:1,b:2/shop?target_session_attrs=read-write")
    assert "host=a,b" in address.conninfo
    assert "port=1,2" in address.conninfo


def test_what_the_url_says_wins_over_our_defaults() -> None:
    assert "connect_timeout=3" in PostgresAddress.parse("postgresql://db/shop?connect_timeout=3").conninfo
    assert "connect_timeout=5" in PostgresAddress.parse("postgresql://db/shop").conninfo


def test_a_password_is_never_shown() -> None:
    address = PostgresAddress.parse("postgresql://ada:sesame@db/shop")
    assert "sesame" in address.conninfo
    assert "sesame" not in repr(address)
    assert "sesame" not in address.description
    with pytest.raises(ConfigurationError) as caught:
        PostgresAddress.parse("postgresql://ada:sesame@db/shop?no_such_option=1")
    assert "sesame" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["Jobs", "a-b", "a;drop", "1a", "a" * 64, ""])
def test_a_schema_that_needs_quotes_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name for a schema"):
        PostgresAddress.parse(f"postgresql://db/shop?schema={name}")


@pytest.mark.parametrize("name", ["user", "select", "pg_jobs"])
def test_a_schema_with_a_name_of_the_server_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="keeps for itself"):
        PostgresAddress.parse(f"postgresql://db/shop?schema={name}")


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="replicated"):
        open_store("postgresql://db/shop", durability="fsync")


@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        (errors.DiskFull("no space left"), ChangesRefused, False),
        (errors.TooManyConnections("too many"), BackendUnavailable, True),
        (errors.ReadOnlySqlTransaction("cannot execute INSERT"), BackendUnavailable, True),
        (errors.QueryCanceled("statement timeout"), BackendUnavailable, True),
        (errors.IdleInTransactionSessionTimeout("idle"), BackendUnavailable, True),
        (errors.AdminShutdown("terminating"), BackendUnavailable, True),
        (errors.NumericValueOutOfRange("bigint"), RequestRefused, False),
        (errors.InsufficientPrivilege("permission denied"), BackendUnavailable, False),
        (psycopg.OperationalError("server closed the connection"), BackendUnavailable, True),
        (psycopg.DataError("NUL"), RequestRefused, False),
    ],
)
def test_each_fault_has_its_error(
    error: psycopg.Error, kind: type[BackendUnavailable], transient: bool
) -> None:
    raised = unavailable("PostgreSQL db/shop", error)
    assert type(raised) is kind
    assert raised.transient is transient


def test_only_a_lost_connection_leaves_a_doubt() -> None:
    assert is_lost(psycopg.OperationalError("server closed the connection"))
    assert is_lost(errors.AdminShutdown("terminating"))
    assert not is_lost(psycopg.DataError("NUL"))
    assert not is_lost(errors.QueryCanceled("statement timeout"))


@pytest.mark.parametrize(
    "url", ["postgresql:///shop", "postgresql://?service=shop", "postgresql:///shop?schema=a"]
)
def test_a_url_without_a_host_is_taken_as_libpq_takes_it(url: str) -> None:
    assert "shop" in PostgresAddress.parse(url).conninfo
