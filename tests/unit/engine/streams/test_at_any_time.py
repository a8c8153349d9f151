"""Whatever happens in whatever order while a queue is split: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any
from zlib import crc32

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, Batch, Message, UniqueKey
from headrace.core.messages.outcome import (
    Dead,
    DeadReason,
    Done,
    Failure,
    Released,
    Retry,
    Settlement,
    Verdict,
)
from headrace.core.records.answers import DeadFilter, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.rules.layout import WHOLE, Layout, parts_of
from headrace.stores.memory.shared_state import SharedState
from tests.support.queue_split_steps import propose, seal

from .test_sending import QUEUE, SOURCE, Process

PROCESSES = st.integers(0, 2)
FAILURE = Failure("ValueError", "no")


class Splitting(RuleBasedStateMachine):
    """Three processes, each with its own idea of the layout, which it gets as a worker does: now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.Runner()
        self._store = SharedState()
        self._processes = [Process(self._store, f"p{number}") for number in range(3)]
        self._layouts: list[Layout] = [WHOLE]  # all that the store ever had
        self._unanswered: dict[int, Batch] = {}
        self._accepted: set[str] = set()
        self._done: Counter[str] = Counter()
        self._claims: list[tuple[int, Claim]] = []

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run(coroutine)

    def _append(self, by: int, batch: Batch) -> None:
        process = self._processes[by]
        try:
            answers = self._run(process.backend.append(batch))
        except BackendUnavailable:
            self._unanswered[by] = batch
            return
        self._unanswered.pop(by, None)
        # What was sent and not answered may have been taken as well.
        sent = {each.id for some in (batch, *self._unanswered.values()) for each in some.messages}
        for message, answer in zip(batch.messages, answers, strict=True):
            if answer.verdict == "accepted":
                assert answer.id == message.id
                self._accepted.add(message.id)
            else:
                assert answer.id in self._accepted | sent

    # --- in -----------------------------------------------------------------------------------------------

    @rule(by=PROCESSES, number=st.integers(1, 12), keys=st.lists(st.sampled_from("abc"), max_size=2))
    def append(self, by: int, number: int, keys: list[str]) -> None:
        if by in self._unanswered:  # a producer has one batch in flight
            return
        messages = [Message(new_id(), "greet", b"", fresh=True) for _ in range(number)]
        messages += [Message(new_id(), "greet", b"", unique=UniqueKey(key), fresh=True) for key in keys]
        self._append(by, self._processes[by].batch(*messages))

    @rule(by=PROCESSES, number=st.integers(1, 12), lost=st.booleans())
    def append_in_vain(self, by: int, number: int, lost: bool) -> None:
        """A lost connection, after which all is well."""
        inner = self._processes[by].inner
        before, after = inner.before, inner.after
        inner.before, inner.after = (lambda batch: not lost), (lambda batch: lost)
        self.append(by, number, [])
        inner.before, inner.after = before, after

    @rule(by=PROCESSES, lost=st.booleans(), every=st.integers(1, 3))
    def trouble(self, by: int, lost: bool, every: int) -> None:
        """From now on appends of this process fail in some parts, before or after they were carried out."""

        def fails(batch: Batch) -> bool:
            return crc32(batch.stream.name.encode()) % every == 0

        inner = self._processes[by].inner
        if lost:
            inner.after = fails
        else:
            inner.before = fails

    @rule(by=PROCESSES)
    def all_is_well_again(self, by: int) -> None:
        inner = self._processes[by].inner
        inner.before = inner.after = lambda batch: False
        if by in self._unanswered:
            self._append(by, self._unanswered[by])

    @rule(by=PROCESSES)
    def try_again(self, by: int) -> None:
        if by in self._unanswered:
            self._append(by, self._unanswered[by])

    # --- changes ------------------------------------------------------------------------------------------

    @rule(by=PROCESSES, parts=st.integers(1, 5))
    def split(self, by: int, parts: int) -> None:
        self._run(self._processes[by].backend.split(QUEUE, parts))

    @rule(by=PROCESSES, parts=st.integers(1, 5), steps=st.integers(0, 5))
    def split_and_die(self, by: int, parts: int, steps: int) -> None:
        inner = self._processes[by].inner
        layout = self._run(propose(inner, QUEUE, parts))
        for part in parts_of(QUEUE, layout.current)[:steps] if layout.proposed else ():
            self._run(seal(inner, part))

    @rule(by=PROCESSES)
    def hear_of_changes(self, by: int) -> None:
        self._run(self._processes[by].backend.layout(QUEUE))

    @precondition(lambda self: len(self._layouts) > 1)
    @rule(back=st.integers(1, 3))
    def fail_over(self, back: int) -> None:
        """Another server takes over, to which the last steps of a change were not copied; what the processes
        know of them is told with their next beats."""
        before = self._layouts[-1 - min(back, len(self._layouts) - 1)]
        self._store.layouts[QUEUE] = before
        for part in parts_of(QUEUE, before.current):
            self._store.stream_state(part).sealed = False
        for process in self._processes:
            self._run(process.backend.layout(QUEUE))

    @invariant()
    def note_the_layout(self) -> None:
        layout = self._store.layouts.get(QUEUE, WHOLE)
        if layout != self._layouts[-1]:
            self._layouts.append(layout)

    @invariant()
    def a_key_is_held_once(self) -> None:
        waiting = [
            entry.message.unique.key
            for stream_state in self._store.stream_states.values()
            for entry in stream_state.entries.values()
            if entry.message.unique and entry.status is not JobStatus.DEAD
        ]
        assert len(set(waiting)) == len(waiting)

    # --- out ----------------------------------------------------------------------------------------------

    @rule(by=PROCESSES, limit=st.integers(1, 6))
    def claim(self, by: int, limit: int) -> None:
        backend = self._processes[by].backend
        self._run(backend.declare_stream(SOURCE, 30_000_000))
        claims = self._run(backend.claim([SOURCE], consumer=f"w{by}", limit=limit, suspects=9, wait=0))
        self._claims += [(by, claim) for claim in claims]

    @precondition(lambda self: self._claims)
    @rule(outcome=st.sampled_from(["done", "retry", "release", "die"]))
    def settle(self, outcome: str) -> None:
        by, claim = self._claims.pop(0)
        outcomes: dict[str, Callable[[], Any]] = {
            "done": Done,
            "retry": lambda: Retry(FRESH, 0),
            "release": Released,
            "die": lambda: Dead(FRESH, DeadReason.EXHAUSTED, FAILURE),
        }
        verdicts = self._run(self._processes[by].backend.settle([Settlement(claim, outcomes[outcome]())]))
        assert verdicts == [Verdict.KEPT]
        self._done[claim.id] += outcome == "done"

    @rule(by=PROCESSES)
    def replay_the_dead(self, by: int) -> None:
        backend = self._processes[by].backend
        self._run(backend.layout(QUEUE))
        letters = self._run(backend.dead_letters(QUEUE, only=DeadFilter()))
        answers = self._run(backend.replay(QUEUE, [letter.id for letter in letters]))
        assert ReplayAnswer.GONE not in answers

    # --- the end ------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self._finish()
        finally:
            self._loop.close()

    def _finish(self) -> None:
        for by in range(3):
            self.all_is_well_again(by)
        while self._claims:
            self.settle("done")
        process = self._processes[0]
        self._run(process.backend.layout(QUEUE))
        dead = {
            letter.id
            for letter in self._run(process.backend.dead_letters(QUEUE, only=DeadFilter(), limit=10_000))
        }
        for id in self._run(process.drain()):
            self._done[id] += 1
        assert set(self._done.elements()) | dead == self._accepted
        assert not set(self._done.elements()) & dead
        assert all(times == 1 for times in self._done.values() if times)
        counts = self._run(process.backend.counts(QUEUE))
        assert (counts.queued, counts.running, counts.scheduled, counts.dead) == (0, 0, 0, len(dead))


def test_nothing_is_lost_and_nothing_runs_twice() -> None:
    run_state_machine_as_test(
        Splitting, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
