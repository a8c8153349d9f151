"""Creates the tables of the store, and migrates an older file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from headrace.core.errors import ConfigurationError

from .connection import Connection

#: The script at index n migrates a file from version n to n + 1. A new file runs all scripts.
SCRIPTS: Final[tuple[str, ...]] = tuple(
    script.read_text(encoding="utf-8")
    for script in sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda script: script.name)
)

# Not PRAGMA user_version: that belongs to the application, whose tables may be in the same file.
_CREATE_VERSION = "CREATE TABLE IF NOT EXISTS headrace_schema (version INTEGER NOT NULL) STRICT"
_HAS_VERSION = "SELECT count(*) FROM sqlite_schema WHERE name = 'headrace_schema'"
_READ_VERSION = "SELECT max(version) FROM headrace_schema"


def bring_up_to_date(connection: Connection, scripts: tuple[str, ...] = SCRIPTS) -> None:
    """Create or migrate the tables in one transaction. Only one of several processes does this."""
    if _version(connection) == len(scripts):
        return
    connection.begin()
    try:
        version = _version(connection)
        _refuse_the_future(connection.path, version, len(scripts))
        for script in scripts[version:]:
            connection.run(script)
        connection.run(_CREATE_VERSION)
        connection.run("DELETE FROM headrace_schema")
        connection.change("INSERT INTO headrace_schema (version) VALUES (?)", (len(scripts),))
        connection.commit()
    except BaseException:
        connection.undo()
        raise


def _version(connection: Connection) -> int:
    if not connection.value(_HAS_VERSION):
        return 0
    return connection.value(_READ_VERSION) or 0


def _refuse_the_future(path: Path, version: int, known: int) -> None:
    if version > known:
        raise ConfigurationError(
            f"{path} was written by a newer headrace (its schema is {version}, this one knows {known}):"
            " upgrade headrace here, or use another file"
        )
