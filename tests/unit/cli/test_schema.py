"""`headrace schema`: the tables of PostgreSQL as SQL."""

from __future__ import annotations

from headrace.stores.postgres.schema.migrations import CURRENT

from .conftest import Shell


def test_the_tables_are_printed_as_sql(headrace: Shell) -> None:
    text = headrace("schema", "print", "postgresql", "--schema", "jobs").stdout
    assert "CREATE SCHEMA IF NOT EXISTS jobs" in text
    assert "CREATE TABLE jobs.messages" in text
    assert "headrace." not in text


def test_only_what_is_new_is_printed(headrace: Shell) -> None:
    text = headrace("schema", "print", "postgresql", "--from", "5").stdout
    assert "CREATE TABLE headrace.history" in text
    assert "CREATE TABLE headrace.messages" not in text
    assert f"SET version = {CURRENT.version}" in text


def test_a_version_that_is_not_known_is_refused(headrace: Shell) -> None:
    assert "knows versions up to" in headrace.refused("schema", "print", "postgresql", "--from", "99")


def test_a_server_of_redis_has_no_schema(headrace: Shell) -> None:
    assert "postgresql://" in headrace.refused("schema", "apply", "redis://localhost")


def test_a_name_that_is_no_schema_is_refused(headrace: Shell) -> None:
    assert "no name for a schema" in headrace.refused("schema", "print", "postgresql", "--schema", "a; b")
