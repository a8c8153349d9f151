"""What can be done to a queue, and how often each action is done. See `actions.py`."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from headrace.core.messages.message import Batch, Message, UniqueKey
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import WORK
from headrace.testing.contract.machines.actions import (
    Action,
    ClaimSome,
    Promote,
    choices,
    chosen,
    common,
    delays,
    mostly,
    processes,
    settlements,
    weighted,
)

from .model import IDS
from .pair import JobPair

# --- in ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Append:
    """With `fresh` under ids that are not in use, as far as there are any."""

    process: int
    messages: list[Message]
    limit: int | None
    fresh: bool

    def play(self, pair: JobPair) -> None:
        number, messages = pair.next_number(), self.messages
        if self.fresh:
            unused = [id for id in IDS if pair.model.status(id) is JobStatus.UNKNOWN]
            named = zip(messages, [*unused, *IDS], strict=False)
            messages = [msgspec.structs.replace(message, id=id) for message, id in named]
        batch = Batch(WORK, f"producer-{self.process}", number, messages, self.limit)
        pair.last_batches[self.process] = batch
        assert pair.run(pair.backends[self.process].append(batch)) == pair.model.append(batch)


@dataclass(frozen=True)
class AppendAgain:
    """The last batch of a producer, whose answer was lost, over another connection."""

    producer: int

    def play(self, pair: JobPair) -> None:
        batch = pair.last_batches.get(self.producer)
        if batch and pair.model.remembers(batch):
            assert pair.run(pair.backends[1 - self.producer].append(batch)) == pair.model.append(batch)


# --- steering ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pause:
    """Pause, try to claim, and resume: for longer nothing would happen at all."""

    process: int

    def play(self, pair: JobPair) -> None:
        for paused in (True, False):
            pair.run(pair.backends[self.process].pause(WORK, paused=paused))
            pair.model.paused = paused
            pair.claim(WORK, 1 - self.process, limit=1, suspects=1)
            pair.compare_counts()


@dataclass(frozen=True)
class Cancel:
    process: int
    choice: int
    kept: int

    def play(self, pair: JobPair) -> None:
        id, ttl_us = chosen(["unknown", *pair.model.messages], self.choice), microseconds(self.kept)
        answer = pair.run(pair.backends[self.process].cancel(WORK, id, ttl_us=ttl_us))
        assert answer == pair.model.cancel(id, ttl_us)


@dataclass(frozen=True)
class RunNow:
    process: int
    choice: int

    def play(self, pair: JobPair) -> None:
        id = chosen(["unknown", *pair.model.messages], self.choice)
        assert pair.run(pair.backends[self.process].run_now(WORK, id)) == pair.model.run_now(id)


@dataclass(frozen=True)
class Rewrite:
    process: int
    choice: int
    body: bytes

    def play(self, pair: JobPair) -> None:
        id = chosen(["unknown", *pair.model.messages], self.choice)
        rewritten = pair.run(pair.backends[self.process].rewrite(WORK, id, self.body))
        assert rewritten == pair.model.rewrite(id, self.body)


@dataclass(frozen=True)
class Purge:
    kept: int

    def play(self, pair: JobPair) -> None:
        if pair.model.count(JobStatus.QUEUED) > 2:  # else there would rarely be much in the store
            ttl_us = microseconds(self.kept)
            purged = pair.run(pair.backends[0].purge(WORK, ttl_us=ttl_us, limit=100))
            assert purged == pair.model.purge(ttl_us)


# --- how they are drawn -----------------------------------------------------------------------------------

KEPT_SECONDS = [0, 10, 40]
kept_seconds = st.sampled_from(KEPT_SECONDS)
bodies = st.binary(max_size=2)

unique_keys = st.none() | st.builds(
    UniqueKey,
    key=st.just("key"),
    until=st.sampled_from(["finished", "started", "elapsed"]),
    window_us=st.sampled_from([microseconds(10), microseconds(30)]),
)
messages = st.builds(
    Message,
    id=st.sampled_from(IDS),
    task=st.just("greet"),
    body=bodies,
    priority=st.integers(0, 2),
    delay_us=delays.map(microseconds),
    lifetime_us=st.sampled_from([0, microseconds(60)]),
    unique=unique_keys,
)
replacing = messages.map(
    lambda message: msgspec.structs.replace(
        message, unique=UniqueKey("key", "started"), on_duplicate="replace"
    )
)
#: Of one batch no two are due later at the same moment: their order would be open.
batches = st.lists(
    messages | replacing, min_size=1, max_size=4, unique_by=lambda message: message.delay_us or object()
)

work = st.just(WORK)
settled = settlements(work, ["failed", "crashed", "released", "nothing"], KEPT_SECONDS, st.none() | bodies)

actions: st.SearchStrategy[Action[JobPair]] = weighted(
    [
        *common(work),
        (6, st.builds(Append, processes, batches, st.sampled_from([None, None, 2, 4]), fresh=mostly)),
        (1, st.builds(AppendAgain, processes)),
        (5, st.builds(ClaimSome, work, processes, st.integers(1, 3), st.sampled_from([4, 1, 0]))),
        (7, settled),
        (2, st.builds(Promote, processes, st.sampled_from([1, 100]), st.sampled_from([0, 10, 50]))),
        (1, st.builds(Pause, processes)),
        (2, st.builds(Cancel, processes, choices, kept_seconds)),
        (1, st.builds(Purge, kept_seconds)),
        (1, st.builds(RunNow, processes, choices)),
        (1, st.builds(Rewrite, processes, choices, bodies)),
    ]
)
