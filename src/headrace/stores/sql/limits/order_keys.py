"""Which jobs get their order keys: the first job of a key is let in, and the others are parked behind it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.stores.sql.rows.moved_rows import ORDER_PREFIX


def stored_key(key: str) -> str | None:
    return ORDER_PREFIX + key if key else None


def wanted_keys(wanted: Sequence[tuple[str | None, str]]) -> list[str]:
    """The keys that `let_in` has to know the holders of, each one once."""
    return list(dict.fromkeys(key for key, _ in wanted if key))


def let_in(
    wanted: Sequence[tuple[str | None, str]], holders: dict[str, str]
) -> tuple[list[bool], list[tuple[str, str, None]]]:
    """Give jobs their keys, each job as key and id. The answer: for each job, whether it is let in, and the
    rows of the keys that are now held. A job without a key is always let in."""
    taken: list[tuple[str, str, None]] = []
    answers: list[bool] = []
    for key, id in wanted:
        if key is not None and key not in holders:
            holders[key] = id
            taken.append((key, id, None))
        answers.append(key is None or holders[key] == id)
    return answers, taken
