"""Topics in a SQLite file that several processes share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.store import Store
from headrace.core.topics.topic import BEGINNING, NEW
from headrace.stores import open_store
from tests.integration.programs.sqlite_group_member import ORDERED, PLAIN
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
TOPIC = Stream("topic", "orders")

#: Publishes one event when it is told to.
PUBLISH = """
import asyncio, sys
from headrace.stores import open_store
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Batch, Message, Stream

async def main():
    backend = open_store(sys.argv[1])
    await backend.open()
    print("ready", flush=True)
    sys.stdin.readline()
    await backend.append(Batch(Stream("topic", "orders"), "other", 1, [Message("there", "placed", b"")]))
    await backend.close()

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def backend(url: str) -> AsyncIterator[Store]:
    backend = open_store(url)
    await backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def publisher(url: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def tell(publisher: subprocess.Popen[bytes]) -> None:
    assert publisher.stdin
    publisher.stdin.write(b"\n")
    publisher.stdin.flush()


async def test_a_claim_that_waits_notices_what_another_process_publishes(
    backend: Store, publisher: subprocess.Popen[bytes]
) -> None:
    await backend.join(PLAIN, BEGINNING)
    waiting = asyncio.ensure_future(backend.claim([PLAIN], consumer="worker-1", limit=9, suspects=1, wait=60))
    tell(publisher)
    async with asyncio.timeout(30):
        assert [claim.id for claim in await waiting] == ["there"]


async def test_a_reader_that_waits_notices_what_another_process_publishes(
    backend: Store, publisher: subprocess.Popen[bytes]
) -> None:
    waiting = asyncio.ensure_future(backend.read(TOPIC, NEW, consumer="reader", limit=9, wait=60))
    await asyncio.sleep(0)
    await backend.streams()  # answered after the first reading, so the reader has its position
    tell(publisher)
    async with asyncio.timeout(30):
        assert [entry.id for entry in (await waiting).entries] == ["there"]


async def test_a_group_that_is_gone_with_its_file_comes_back(
    backend: Store, tmp_path: Path, url: str
) -> None:
    source = group_stream("orders", "billing")
    await backend.join(source, NEW)
    for file in tmp_path.iterdir():
        file.unlink()
    other = open_store(url)
    await other.open()
    await other.append(Batch(TOPIC, "other", 1, [Message("there", "placed", b"")]))
    await other.close()

    async def comes_back() -> bool:
        try:
            claims = await backend.claim([source], consumer="worker-1", limit=9, suspects=1, wait=0)
        except BackendUnavailable:
            return False  # once, since its file is gone
        return [claim.id for claim in claims] == ["there"]

    await wait_until(comes_back)


@pytest.fixture
def members(url: str, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [
        sys.executable,
        "-m",
        "tests.integration.programs.sqlite_group_member",
        url,
        str(tmp_path / "notes"),
    ]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


async def test_every_group_sees_every_event_and_an_ordered_one_in_order_though_a_member_is_killed(
    backend: Store, members: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    keys = {f"e{number:04}": f"k{number % 20}" for number in range(1000)}
    ids = list(keys)
    for number in range(0, 1000, 50):
        events = [Message(id, "placed", b"hello", key=keys[id]) for id in ids[number : number + 50]]
        await backend.append(Batch(TOPIC, "producer", number + 1, events))
        if number == 500:
            await wait_until(lambda: notes.exists() and os.path.getsize(notes) > 3000, timeout=30)
            members[0].kill()

    async def finished() -> bool:
        both = [await backend.counts(group) for group in (PLAIN, ORDERED)]
        return not any(counts.queued + counts.running for counts in both)

    await wait_until(finished, timeout=60)
    handled: dict[str, list[str]] = defaultdict(list)
    for line in notes.read_text().splitlines():
        group, id = line.split()
        handled[group].append(id)
    for group in ("billing", "index"):
        assert set(handled[group]) == set(ids)
        assert len(handled[group]) <= len(ids) + 10, "only what the killed one held is handled twice"
    for key in set(keys.values()):
        in_turn = [id for id in handled["index"] if keys[id] == key]
        assert in_turn == sorted(in_turn)


async def test_a_group_of_a_file_that_is_gone_comes_back_as_its_member_wants_it(
    backend: Store, tmp_path: Path
) -> None:
    group = group_stream("orders", "billing")
    await backend.join(group, BEGINNING, ordered=True)
    for each in tmp_path.glob("jobs.db*"):
        each.unlink()
    events = [Message(id, "placed", b"", key="a") for id in ("a1", "a2")]
    with pytest.raises(BackendUnavailable, match="deleted or replaced"):
        await backend.append(Batch(TOPIC, "publisher", 1, events))
    await backend.append(Batch(TOPIC, "publisher", 2, events))
    claims = await backend.claim([group], consumer="worker", limit=9, suspects=0, wait=0)
    assert [claim.id for claim in claims] == ["a1"]
