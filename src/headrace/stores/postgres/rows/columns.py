"""Turns rows into columns: PostgreSQL takes one array for each column of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """One list for each column. There must be at least one row."""
    return [list(column) for column in zip(*rows, strict=True)]
