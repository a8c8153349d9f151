"""The versions of the tables, as SQL.

A change goes out in two parts. `expand` only adds. So processes with an older headrace go on working, and a
new process does this part by itself when it opens the store. `contract` removes what only older processes
need. `headrace schema apply` does this part, and only when no older process is connected.

`NN-name.sql` expands the tables from version NN - 1 to NN. `NN-name.contract.sql` removes what versions
before NN need. `headrace.` stands for the schema that the URL names.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import msgspec

#: The first version that a headrace worked on.
FIRST: Final = 2


class Migrations(msgspec.Struct, frozen=True):
    """`expand`: the script at index n leads from version n to n + 1. `contract`: after the script of a
    version no older process works any more."""

    expand: tuple[str, ...]
    contract: dict[int, str] = {}

    @property
    def version(self) -> int:
        return len(self.expand)

    @property
    def oldest(self) -> int:
        """The oldest version that works on tables after all these scripts."""
        return max(self.contract, default=FIRST)

    def contract_after(self, oldest: int) -> list[str]:
        return [script for version, script in sorted(self.contract.items()) if version > oldest]


def _current() -> Migrations:
    scripts = {
        each.name: each.read_text(encoding="utf-8")
        for each in files(__package__).iterdir()
        if each.name.endswith(".sql")
    }
    contract = {int(name[:2]): text for name, text in scripts.items() if name.endswith(".contract.sql")}
    expand = [text for name, text in sorted(scripts.items()) if not name.endswith(".contract.sql")]
    return Migrations(tuple(expand), contract)


CURRENT: Final = _current()
