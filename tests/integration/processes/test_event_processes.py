"""Real processes that share topics, and are killed or stopped meanwhile."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.integration.programs.recording_subscribers import GROUPS, EventProgram, Story, flood_log
from tests.integration.support.worker_processes import WorkerProcess, Workshop
from tests.support.servers import also

PROGRAM = "tests.integration.programs.recording_subscribers:app"

STORES = ["sqlite", "valkey-9.1", *also("redis-7.0")]
on_every_store = pytest.mark.parametrize("workshop", STORES, indirect=True)


async def _start(workshop: Workshop, *flags: str) -> WorkerProcess:
    worker = workshop.start(*flags, target=PROGRAM)
    await workshop.until(lambda: workshop.log.lines("working", pid=worker.pid) or worker.ended)
    assert not worker.ended, worker.output
    return worker


def _handled(workshop: Workshop, group: str) -> dict[str, list[int]]:
    """The numbers that a group has handled, by key, in the order in which it did."""
    seen: dict[str, list[int]] = defaultdict(list)
    for line in workshop.log.lines("handled", group=group):
        seen[line["key"]].append(line["number"])
    return seen


def _first_times(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


@on_every_store
async def test_every_group_gets_every_event_in_key_order_while_members_are_killed(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    keys, each = 20, 60
    steady = await _start(workshop)
    for number in range(each):
        if number in (15, 35):
            worker = await _start(workshop)
            goal = number * keys * len(GROUPS) // 4
            await workshop.until(lambda goal=goal: len(workshop.log.lines("handled")) >= goal)
            worker.kill()
        await program.stories.publish_many(
            [program.stories.message(Story(number), key=f"key-{key}") for key in range(keys)]
        )
    await workshop.until(
        lambda: all(
            sum(len(set(numbers)) for numbers in _handled(workshop, group).values()) == keys * each
            for group in GROUPS
        ),
        timeout=60,
    )
    for group in GROUPS:
        for key, numbers in _handled(workshop, group).items():
            # A killed member's event comes again, but never after a later one of its key was begun.
            assert numbers == sorted(numbers), (group, key)
            assert _first_times(numbers) == list(range(each)), (group, key)
    assert not steady.ended
    await program.app.close()


@pytest.mark.more
@pytest.mark.timeout(240)
@pytest.mark.parametrize("workshop", ["valkey-9.1"], indirect=True)
async def test_a_hundred_thousand_events_reach_three_groups_in_key_order(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    flood: Any = program.app.topic("flood", int)
    keys, each = 1_000, 100
    for _ in range(2):
        await _start(workshop)
    for number in range(each):
        await flood.publish_many([flood.message(number, key=f"key-{key}") for key in range(keys)])
    path = flood_log(workshop.log)
    wanted = [f"{group} key-{key} {n}\n" for group in GROUPS for key in range(keys) for n in range(each)]
    size = sum(map(len, wanted))
    await workshop.until(lambda: path.exists() and path.stat().st_size >= size, timeout=200)
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in path.read_text().splitlines():
        group, name, handled = line.split()
        seen[group, name].append(int(handled))
    assert len(seen) == keys * len(GROUPS)
    wrong = {place: numbers for place, numbers in seen.items() if numbers != list(range(each))}
    assert not wrong, next(iter(wrong.items()))
    await program.app.close()


@on_every_store
async def test_the_event_of_a_killed_member_is_handled_by_another(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    rare = program.app.topic("rare", Story)
    first = await _start(workshop)
    await rare.publish(Story(1, hang=True))
    await workshop.until(lambda: workshop.log.lines("reading", number=1))
    first.kill()
    await _start(workshop)
    await workshop.until(lambda: workshop.log.lines("read", number=1))
    assert [line["attempt"] for line in workshop.log.lines("reading", number=1)] == [1, 2]
    await program.app.close()


@on_every_store
async def test_what_is_published_while_no_member_lives_is_handled_by_the_next(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    rare = program.app.topic("rare", Story)
    first = await _start(workshop)
    first.kill()
    await rare.publish_many([Story(number) for number in range(500)])
    await _start(workshop)
    await workshop.until(lambda: len(workshop.log.lines("read")) >= 500)
    assert Counter(line["number"] for line in workshop.log.lines("read")) == Counter(range(500))
    await program.app.close()


@on_every_store
async def test_a_member_stopped_past_its_lease_does_not_settle_what_another_has(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    rare = program.app.topic("rare", Story)
    first = await _start(workshop)
    await rare.publish(Story(1, hang=True))
    await workshop.until(lambda: workshop.log.lines("reading", number=1))
    await workshop.stop(first)
    second = await _start(workshop)
    await workshop.until(lambda: workshop.log.lines("read", number=1, pid=second.pid))
    first.send(signal.SIGCONT)
    await rare.publish(Story(2))
    await workshop.until(lambda: workshop.log.lines("read", number=2))
    # Meanwhile the server may have handed it to the one that stood still, which finds it when it goes on, and
    # hands it back.
    assert [line["pid"] for line in workshop.log.lines("reading", number=1)] == [first.pid, second.pid]
    await workshop.until(lambda: _is_settled(program))
    assert not len(await program.app.admin.dead(topic="rare"))
    await program.app.close()


@pytest.mark.parametrize("workshop", ["valkey-9.1", *also("redis-7.0")], indirect=True)
async def test_a_killed_server_comes_back_with_every_event(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    rare = program.app.topic("rare", Story)
    await _start(workshop)
    for number in range(300):
        if number == 150:
            workshop.server.kill()
            workshop.server.start()
        await rare.publish(Story(number))
    await workshop.until(lambda: len({line["number"] for line in workshop.log.lines("read")}) == 300)
    await program.app.close()


@pytest.mark.more
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("workshop", "processes"),
    [("sqlite", 5), ("redis-7.0", 5), ("valkey-9.1", 20)],
    indirect=["workshop"],
)
async def test_a_fan_out_reaches_every_process_and_leaves_nothing_behind(
    workshop: Workshop, processes: int
) -> None:
    program = EventProgram(workshop.url, workshop.log)
    workers = [workshop.start("--topics", "everywhere", target=PROGRAM) for _ in range(processes)]
    await workshop.until(lambda: len(workshop.log.lines("working")) == processes, timeout=100)
    await program.everywhere.publish_many([Story(number) for number in range(20)])
    pids = {worker.pid for worker in workers}
    await workshop.until(
        lambda: all(len(workshop.log.lines("heard", pid=pid)) == 20 for pid in pids), timeout=40
    )
    for worker in workers:
        worker.kill()
    topics = {topic.name: topic for topic in await program.app.admin.topics()}
    assert topics["everywhere"].groups == ()
    await program.app.close()


@on_every_store
async def test_retention_gives_the_store_its_room_back(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    short = program.app.topic("short", Story, retention=0.2, retention_strict=False)
    for _ in range(10):
        await short.publish_many([Story(number) for number in range(200)])

    async def is_trimmed() -> bool:
        await short.publish(Story(0))  # each append trims a little
        [topic] = [each for each in await program.app.admin.topics() if each.name == "short"]
        return topic.length < 500  # of the two thousand at the start, and those of this loop

    await workshop.until(is_trimmed)
    await program.app.close()


@on_every_store
async def test_a_group_is_read_again_from_the_beginning_by_other_processes(workshop: Workshop) -> None:
    program = EventProgram(workshop.url, workshop.log)
    rare = program.app.topic("rare", Story)
    await _start(workshop)
    await rare.publish_many([Story(number) for number in range(50)])
    await workshop.until(lambda: len(workshop.log.lines("read")) >= 50)
    await workshop.until(lambda: _is_settled(program))
    await rare.replay(group="readers", since="beginning")
    await workshop.until(lambda: len(workshop.log.lines("read")) >= 100)
    counted = Counter(line["number"] for line in workshop.log.lines("read"))
    assert counted == Counter({number: 2 for number in range(50)})
    await program.app.close()


async def _is_settled(program: EventProgram) -> bool:
    [group] = [
        group
        for topic in await program.app.admin.topics()
        for group in topic.groups
        if (topic.name, group.group) == ("rare", "readers")
    ]
    return group.lag + group.running == 0
