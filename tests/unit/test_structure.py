"""What the structure of the source promises to a reader."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import headrace
from headrace.core.store import Store

SOURCE = Path(headrace.__file__).parent

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


def test_a_store_implements_at_most_45_verbs() -> None:
    assert len(Store.__abstractmethods__) <= 45
