"""Turns a URL like `sqlite:///jobs.db` into the path of a file; an error says what is wrong with the URL."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import ConfigurationError

SCHEME = "sqlite://"
FORMS = "sqlite:///relative.db or sqlite:////absolute/path.db"


def path_of(url: str) -> Path:
    """The absolute path. A relative path starts at the current working directory."""
    rest = url.removeprefix(SCHEME)
    if rest in ("", "/") or rest.strip("/") == ":memory:":
        raise ConfigurationError(
            f"{url!r} names no file. For a store in memory write memory://, for a file {FORMS}"
        )
    if not rest.startswith("/"):
        raise ConfigurationError(f"{url!r} has too few slashes: write sqlite:///{rest}, or {FORMS}")
    if "?" in rest:
        raise ConfigurationError(f"{url!r} has parameters, and a SQLite store takes none: write {FORMS}")
    if rest.endswith("/"):
        raise ConfigurationError(f"{url!r} names a folder: add the name of the file, as in {FORMS}")
    if rest.startswith("/~"):
        raise ConfigurationError(f"{url!r}: ~ is not expanded; write the whole path, as in {FORMS}")
    return Path.cwd() / rest[1:]
