"""The checker: asks every rule about a history, and prints the whole history of what is broken."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from . import rules
from .facts import shown
from .history import History

#: Seconds before and after the history of a message in which faults are printed too.
AROUND = 10.0

#: How many broken messages of one rule are printed whole.
PRINTED = 3


class Broken(NamedTuple):
    """A rule that does not hold, for one message or for the round (`""`)."""

    rule: str
    message: str
    why: str


#: What a file in `rules/` has as `check`: the messages for which the rule does not hold, and why.
Check = Callable[[History], Iterable[tuple[str, str]]]


def all_rules() -> dict[str, Check]:
    """Every rule by its name, which is that of its file."""
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    return {name: importlib.import_module(f"{rules.__name__}.{name}").check for name in names}


def broken_rules(history: History) -> list[Broken]:
    return [Broken(rule, *found) for rule, check in all_rules().items() for found in check(history)]


def told(history: History, broken: list[Broken], seed: str) -> Iterator[str]:
    """Lines for people: the seed, each broken rule, and the history of the first messages that broke it."""
    printed: dict[str, int] = {}
    yield f"{len(broken)} broken; seed {seed}"
    for each in broken:
        printed[each.rule] = printed.get(each.rule, 0) + 1
        if printed[each.rule] > PRINTED:
            continue
        yield ""
        yield f"{each.rule}: {each.message or 'the round'}: {each.why}"
        yield from _history_of(history, each.message)
    for rule, number in printed.items():
        yield f"{rule}: {number} in all"


def _history_of(history: History, message: str) -> Iterator[str]:
    story = history.messages.get(message)
    if story is None:
        return
    begin, end = story.facts[0].at - AROUND, story.facts[-1].at + AROUND
    faults = [
        fact
        for fact in history.facts
        if fact.kind in ("fault_begun", "fault_ended", "gone") and begin <= fact.at <= end
    ]
    facts = faults + story.facts
    yield from (f"    {shown(fact)}" for fact in sorted(facts, key=lambda fact: fact.at))
