"""A topic with parts, while processes publish to it and handle its events, and some of them are killed."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.programs.recording_subscribers import GROUPS, EventProgram, Story
from tests.integration.support.worker_processes import WorkerProcess, Workshop
from tests.support.server_groups import Cluster

PROGRAM = "tests.integration.programs.recording_subscribers:parted"

#: Partitions of the topics.
PARTS = 3

#: Keys of a publisher, and how many events each of them gets.
KEYS, EACH = 8, 60

#: After how many events of each key a worker is killed.
KILLS = (10, 20, 30, 45)


@pytest.fixture
async def cluster_workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    with Cluster("valkey-9.1", tmp_path / "servers") as cluster:
        workshop = Workshop(cluster.url, tmp_path)
        yield workshop
        await workshop.close()


async def _start(workshop: Workshop) -> WorkerProcess:
    worker = workshop.start(target=PROGRAM)
    await workshop.until(lambda: workshop.log.lines("working", pid=worker.pid) or worker.ended)
    assert not worker.ended, worker.output
    return worker


class Publisher:
    """A process of its own as far as the store can tell."""

    def __init__(self, workshop: Workshop, name: str) -> None:
        self._program = EventProgram(workshop.url, workshop.log, partitions=PARTS)
        self.keys = [f"{name}-{number}" for number in range(KEYS)]
        self.published = 0
        self._allowed = 0
        self._may_go_on = asyncio.Event()

    def go_on(self, allowed: int) -> None:
        self._allowed = allowed
        self._may_go_on.set()

    async def publish(self) -> None:
        stories = self._program.stories
        for number in range(EACH):
            while number >= self._allowed:
                self._may_go_on.clear()
                await self._may_go_on.wait()
            outcomes = await stories.publish_many(
                [stories.message(Story(number), key=key) for key in self.keys]
            )
            assert {type(outcome).__name__ for outcome in outcomes} == {"Published"}
            self.published = number + 1

    async def close(self) -> None:
        await self._program.app.close()


def _handled(workshop: Workshop, group: str) -> dict[str, list[int]]:
    """The numbers that a group has handled, by key, in the order in which it did."""
    seen: dict[str, list[int]] = defaultdict(list)
    for line in workshop.log.lines("handled", group=group):
        seen[line["key"]].append(line["number"])
    return seen


def _distinct(workshop: Workshop) -> int:
    return sum(len(set(each)) for group in GROUPS for each in _handled(workshop, group).values())


async def _publish_on(
    workshop: Workshop, publishers: list[Publisher], workers: list[WorkerProcess], *, kill: bool
) -> None:
    """Have events published step by step; after each step a worker dies."""
    for after in KILLS if kill else ():
        for publisher in publishers:
            publisher.go_on(after + 10)
        await workshop.until(lambda after=after: all(each.published >= after for each in publishers))
        workers.append(await _start(workshop))
        workers.pop(0).kill()
    for publisher in publishers:
        publisher.go_on(EACH)


async def _play(workshop: Workshop, *, kill: bool) -> None:
    publishers = [Publisher(workshop, name) for name in "ab"]
    workers = [await _start(workshop), await _start(workshop)]
    publishing = [asyncio.ensure_future(publisher.publish()) for publisher in publishers]
    await _publish_on(workshop, publishers, workers, kill=kill)
    await asyncio.gather(*publishing)
    wanted = len(publishers) * KEYS * EACH * len(GROUPS)
    await workshop.until(lambda: _distinct(workshop) >= wanted, timeout=60)
    for group in GROUPS:
        handled = _handled(workshop, group)
        assert handled.keys() == {key for publisher in publishers for key in publisher.keys}
        for key, numbers in handled.items():
            # A killed member's event comes again, but never after a later one of its key was begun.
            assert numbers == sorted(numbers), (group, key)
            assert sorted(set(numbers)) == list(range(EACH)), (group, key)
            if not kill:
                assert numbers == list(range(EACH)), (group, key)
    assert not any(worker.ended for worker in workers)
    for publisher in publishers:
        await publisher.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workshop", ["sqlite", "valkey-9.1"], indirect=True)
async def test_order_by_key_holds_in_parts_while_members_are_killed(workshop: Workshop) -> None:
    await _play(workshop, kill=True)


@pytest.mark.more
@pytest.mark.timeout(120)
async def test_order_by_key_holds_in_parts_on_a_cluster(cluster_workshop: Workshop) -> None:
    await _play(cluster_workshop, kill=False)


@pytest.mark.parametrize("workshop", ["valkey-9.1"], indirect=True)
async def test_every_process_hears_every_event_of_all_parts(workshop: Workshop) -> None:
    workers = [await _start(workshop) for _ in range(2)]
    program = EventProgram(workshop.url, workshop.log, partitions=PARTS)
    await program.everywhere.publish_many([Story(number) for number in range(300)])
    await workshop.until(lambda: len(workshop.log.lines("heard")) >= 600)
    for worker in workers:
        heard = Counter(line["number"] for line in workshop.log.lines("heard", pid=worker.pid))
        assert heard == Counter(range(300))
    await program.app.close()
