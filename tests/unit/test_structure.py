"""What the structure of the source promises to a reader."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import headrace
from headrace.core import store as contract
from headrace.core.history.recording import Recording
from headrace.core.limits.limiting import Limiting
from headrace.core.moving.moving import Moving
from headrace.core.outbox.outbox import Outboxes
from headrace.core.store import LeaseKeeper, PartitionedStore, Store

SOURCE = Path(headrace.__file__).parent

MOST_LINES = 400

#: Users meet the first three as errors and as signals, each under its own module. Django names the last one.
BOTH = {"JobCancelled", "JobExpired", "JobFailed", "Command"}


def test_no_name_stands_for_two_things() -> None:
    """Neither a class nor an alias of a type. Type variables do not count."""
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for name in (*classes, *_aliases(tree)):
            places[name].append(str(path.relative_to(SOURCE)))
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in BOTH}
    assert twice == {}


def _aliases(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_variable = re.search("TypeVar|ParamSpec", ast.unparse(node))
            if isinstance(targets[0], ast.Name) and not is_variable:
                yield from re.findall(r"^_?[A-Z]+[a-z]\w*$", targets[0].id)


def test_a_module_has_at_most_400_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path): length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_a_store_implements_at_most_45_verbs_and_six_for_each_later_capability() -> None:
    assert len(Store.__abstractmethods__ - Outboxes.__abstractmethods__) <= 45
    assert len(Outboxes.__abstractmethods__) <= 6
    assert len(Limiting.__abstractmethods__) <= 6
    assert len(Moving.__abstractmethods__) <= 6


def test_the_page_of_the_contract_names_each_verb_and_its_place() -> None:
    assert contract.__doc__
    table = contract.__doc__.partition("**All verbs**")[2].partition("**One idea.**")[0]
    rows: dict[str, set[str]] = {}
    for line in filter(None, table.splitlines()[1:]):
        place, named = line[:51].strip(), line[51:].split()
        rows.setdefault(place or next(reversed(rows)), set()).update(named)
    assert rows.pop("Examination, core/records/findings.py") == {"examine", "(optional)"}
    for kind in (*PartitionedStore.__mro__, LeaseKeeper, Limiting, Recording, Moving):
        path = kind.__module__.replace(".", "/").removeprefix("headrace/") + ".py"
        place = f"{kind.__name__}, {'below' if kind.__module__ == contract.__name__ else path}"
        verbs = {name for name, verb in vars(kind).items() if hasattr(verb, "__isabstractmethod__")}
        assert rows.pop(place, set()) == verbs
    assert rows == {}
