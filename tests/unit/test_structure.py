"""What the structure of the source promises to a reader."""

from __future__ import annotations

import ast
from collections import defaultdict
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

#: Users meet these as errors and as signals, each under its own module.
BOTH = {"JobCancelled", "JobExpired", "JobFailed"}


def test_no_class_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in BOTH}
    assert twice == {}


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
