"""Runs fail only as their program does: an error that no handler raises comes from the engine or the store.
What is sent to be refused has its error."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for fact in history.facts:
        story = history.messages.get(history.name_of(fact))
        if fact.kind == "strange" and not (story and story.plan.may_die):
            yield history.name_of(fact), f"failed in {fact.process} with {fact.value}"
