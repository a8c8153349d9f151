"""One seeded bug: the lines that it changes, and what must catch it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from textwrap import dedent, indent

import msgspec

#: Where the tests of the contract suite are, as pytest names them.
CONTRACT = "tests/contract/test_contract.py::suite::"


class PatchDoesNotApply(Exception):
    """The lines of a seeded bug are not in its file any more, or more than once."""


class Round(msgspec.Struct, frozen=True):
    """A round of the torture harness: the checker must find a broken rule in it."""

    store: str
    workload: str
    faults: str
    seed: str = "7"

    def __str__(self) -> str:
        return f"round {self.store}, {self.workload}, {self.faults}"


class SeededBug(msgspec.Struct, frozen=True):
    """A mutation of one file. `before` is a run of whole lines that occurs once in it, at any indentation.

    `why` says what the mutation would cost a user. `tests` are the names of tests, as pytest takes them; all
    of them pass on the code as it is, and at least one fails on the mutated code. The same holds of `rounds`.
    """

    file: str  # below src/headrace
    why: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    rounds: tuple[Round, ...] = ()

    def applied(self, text: str) -> str:
        """The text of the file with the bug in it."""
        found = list(re.finditer(_pattern(self.before), text, re.MULTILINE))
        if len(found) != 1:
            raise PatchDoesNotApply(f"{self.file} has these lines {len(found)} times:\n{self.before}")
        [match] = found
        return text[: match.start()] + indent(_lines(self.after), match["indent"]) + text[match.end() :]


def _lines(text: str) -> str:
    return dedent(text).strip("\n") + "\n"


def _pattern(before: str) -> str:
    """Whole lines, of which the first may be indented, and the others by as much more."""
    first, *others = (re.escape(line) for line in _lines(before).splitlines())
    return "".join(
        [f"^(?P<indent>[ \\t]*){first}\\n", *(f"(?P=indent){line}\\n" if line else "\\n" for line in others)]
    )


def contract(module: str, test: str, store: str) -> str:
    """A test of the contract suite on one store."""
    return f"{CONTRACT}{module}::{test}[{store}]"


def all_bugs() -> dict[str, SeededBug]:
    """Every bug by its name, which is that of its file."""
    package = importlib.import_module(f"{__package__}.bugs")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"{package.__name__}.{name}").BUG for name in names}
