"""The table of seeded bugs: what catches each of them."""

from __future__ import annotations

from collections.abc import Sequence

from .catching import Catch, Caught
from .seeded_bug import CONTRACT, SeededBug

_HEADS = ("seeded bug", "what it would cost", "file", "caught by")

_PAGE_HEAD = """\
# Seeded bugs

Each line is a mutation of headrace's own code. `python -m tests.torture.seeded_bugs` applies one after the
other to a copy of the source, runs the tests and rounds that must catch it, and wrote this page.

"""


def summary(results: Sequence[Caught]) -> str:
    caught = sum(result.is_caught for result in results)
    return f"{caught} of {len(results)} seeded bugs are caught."


def line(result: Caught) -> str:
    """A row of the table for the terminal."""
    by = ", ".join(map(_short, result.by)) if result.is_caught else "NOTHING CATCHES IT"
    return f"{result.seconds:6.1f} s  {result.name:<44} {by}"


def page(results: Sequence[Caught]) -> str:
    """For the documentation."""
    return f"{_PAGE_HEAD}{summary(results)}\n\n{table(results)}"


def table(results: Sequence[Caught]) -> str:
    """In Markdown, to be part of a page."""
    rows = [_HEADS, ("---",) * len(_HEADS), *map(_row, results)]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _row(result: Caught) -> tuple[str, ...]:
    by = ", ".join(f"`{_short(catch)}`" for catch in result.by) if result.is_caught else "**nothing**"
    return _title(result.name), _sentence(result.bug), f"`{result.bug.file}`", by


def _title(name: str) -> str:
    return name.replace("_", " ")


def _sentence(bug: SeededBug) -> str:
    return " ".join(bug.why.split())


def _short(catch: Catch) -> str:
    """Which part of the tests it is, and its name. A round is named by the rules that it broke."""
    if catch.name.startswith("round "):
        return f"checker: {catch.why} ({catch.name})"
    part = "contract" if catch.name.startswith(CONTRACT) else "test"
    return f"{part}: " + "::".join(catch.name.rpartition("/")[2].split("::")[-2:])
