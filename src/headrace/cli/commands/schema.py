"""`headrace schema`: the tables of a PostgreSQL store and of outboxes, as SQL or applied."""

from __future__ import annotations

import asyncio
from types import ModuleType

import click

from headrace.cli.output.render import echo
from headrace.core.errors import ConfigurationError
from headrace.stores.outbox import schema_of, schema_script

#: The databases that have a schema.
STORES = ("postgresql", "sqlite")


@click.group()
def schema() -> None:
    """Print or apply the tables of a store or an outbox.

    These are tables of a PostgreSQL store, or of an outbox in a database of yours.

    \b
    Examples:
      headrace schema print postgresql
      headrace schema apply postgresql://localhost/shop
      headrace schema apply sqlite:///shop.db
    """


@schema.command("print")
@click.argument("store", type=click.Choice(STORES))
@click.option("--from", "from_version", type=click.IntRange(min=0), default=0, help="The version you have.")
@click.option("--schema", "name", default="headrace", show_default=True, help="The schema of the tables.")
def print_schema(store: str, from_version: int, name: str) -> None:
    """Print the SQL that makes the tables or updates them.

    \b
    Examples:
      headrace schema print postgresql > tables.sql
      headrace schema print postgresql --from 1 --schema jobs
    """
    if store == "sqlite":
        echo(schema_script(store))
        return
    postgres = _postgres()
    version = postgres.CURRENT.version
    if from_version > version:
        raise ConfigurationError(f"--from {from_version}: this headrace knows versions up to {version}")
    echo(postgres.script(name, from_version))


@schema.command("apply")
@click.argument("url")
def apply_schema(url: str) -> None:
    """Make the tables that a URL names, or bring them up to date. A repeat changes nothing.

    For PostgreSQL these are the tables of a store and of an outbox, for SQLite those of an outbox: a SQLite
    store makes its own.

    \b
    Examples:
      headrace schema apply postgresql://localhost/shop
      headrace schema apply 'postgresql://localhost/shop?schema=jobs'
      headrace schema apply sqlite:///shop.db
    """
    if url.startswith("sqlite://"):
        echo(asyncio.run(schema_of(url)))
        return
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError("give a URL that begins with postgresql:// or sqlite:///")
    postgres = _postgres()
    address = postgres.PostgresAddress.parse(url)
    applied = asyncio.run(postgres.apply(address))
    echo(f"{address.description}: the tables are of version {applied.version}")
    if not applied.contracted:
        echo(
            "Processes with an older headrace are connected, so what only they need was kept: run this again"
            " when they are gone."
        )


def _postgres() -> ModuleType:
    try:
        from headrace.stores.postgres.schema import schema
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"this needs {error.name}, which is not installed: pip install 'headrace[postgres]'"
        ) from error
    return schema
