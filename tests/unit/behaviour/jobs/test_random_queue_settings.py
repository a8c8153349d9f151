"""Random settings of queues beside random jobs: slots hold, and every death is called once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from headrace import App, DeadLetter, RetryPolicy, Snooze, Unrecoverable, Worker, current_job
from headrace.core.errors import BackendUnavailable
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import LONG

QUEUES = ["mails", "calls", "reports", "index"]


class RandomWork:
    """An app with random settings, its jobs, and what they did."""

    def __init__(self, app: App, store: InterceptedStore, chance: random.Random) -> None:
        self.app, self.store, self.chance = app, store, chance
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.called: Counter[str] = Counter()
        self.queues = {name: self._declare(name) for name in QUEUES}
        self._declare_tasks()

    def _declare(self, name: str) -> tuple[int | None, bool]:
        """Declare a queue; answers its slots, and whether its deaths are called."""
        chance = self.chance
        slots, calls = chance.choice([None, 1, 2, 5]), chance.random() < 0.7
        self.app.queue(
            name,
            slots=slots,
            on_dead="called" if calls else None,
            retry=chance.choice([RetryPolicy.none(), RetryPolicy.fixed(2, 0)]),
            crash_limit=chance.choice([None, 1, 2]),
            partitions=chance.choice([None, 3]),
        )
        return slots, calls

    def _declare_tasks(self) -> None:
        app = self.app

        @app.task(name="called", queue=self.chance.choice(QUEUES), retry=RetryPolicy.none())
        async def called(id: str, task: str, queue: str, reason: str, error: str) -> None:
            self.called[id] += 1
            if self.chance.random() < 0.1:
                raise ValueError("the report fails")

        @app.task(name="work")
        async def work(turns: int, end: str) -> None:
            queue = current_job().queue
            self.now[queue] += 1
            self.most[queue] = max(self.most[queue], self.now[queue])
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
                self._end(end)
            finally:
                self.now[queue] -= 1

        self.work = work

    def _end(self, end: str) -> None:
        if end == "fail":
            raise ValueError("it fails")
        if end == "unrecoverable":
            raise Unrecoverable("it is useless")
        if end == "snooze" and not current_job().redelivered and self.chance.random() < 0.5:
            raise Snooze(0)

    async def enqueue(self, count: int) -> None:
        ends = ["done", "done", "fail", "unrecoverable", "snooze"]
        calls = [
            self.work.with_(queue=self.chance.choice(QUEUES)).call(
                self.chance.randrange(4), self.chance.choice(ends)
            )
            for _ in range(count)
        ]
        await self.app.enqueue_many(calls)
        for queue in self.chance.sample(QUEUES, 2):
            await self.app.remote("work", queue=queue).enqueue("many", 7)

    def lose_answers(self) -> None:
        """Lose some answers of the store."""
        for verb in ("settle", "hand_on"):
            self._make_doubtful(verb)

        self._make_refusing("claim")

    def _make_refusing(self, verb: str) -> None:
        """Refuse some calls of a verb. What other calls of the same step have claimed must not be lost."""
        answer, refused = getattr(self.store, verb), list[str]()

        async def refusing(*args: object, **options: object) -> object:
            if len(refused) < 5 and self.chance.random() < 0.3:
                refused.append(verb)
                raise BackendUnavailable("the store is away")
            return await answer(*args, **options)

        self.store.intercept(verb, refusing)

    def _make_doubtful(self, verb: str) -> None:
        answer = getattr(self.store, verb)

        async def doubtful(*args: object, **options: object) -> object:
            answered = await answer(*args, **options)
            if self.chance.random() < 0.2:
                raise BackendUnavailable("the answer was lost", uncertain=True)
            return answered

        self.store.intercept(verb, doubtful)

    def worker(self) -> Worker:
        return self.app.worker(queues=QUEUES, concurrency=self.chance.choice([3, 10, 40]), lease=LONG)


@pytest.mark.parametrize("seed", range(12))
async def test_slots_hold_and_every_death_is_called_once(
    app: App, store: InterceptedStore, seed: int
) -> None:
    work = RandomWork(app, store, random.Random(seed))
    await work.enqueue(120)
    if seed % 2:
        work.lose_answers()
    await work.worker().run(burst=True)
    dead: Counter[str] = Counter()
    for queue, (slots, calls) in work.queues.items():
        assert work.most[queue] <= (slots or 40)
        letters = await _dead(app, queue)
        dead.update(letter.id for letter in letters if calls and letter.task != "called")
    assert work.called == dead
    assert set(dead.values()) <= {1}
    assert await app.admin.outboxes() == []


async def _dead(app: App, queue: str) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    cursor: str | None = None
    while True:
        page = await app.admin.dead(queue=queue, cursor=cursor)
        letters += page
        if (cursor := page.cursor) is None:
            return letters
