"""Samples: what each process of a fleet and its store take at a moment. They are written to a file, a line
each, so that figures and picture can be made again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.torture.fleet import Fleet, ServerError
from tests.torture.stores import TortureStore

#: Seconds between two samples.
EVERY: Final = 10.0

PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process at one moment. `at` is on the monotonic clock. `role`: worker, child, producer or store."""

    arm: str
    at: float
    role: str
    process: str
    rss: int = 0  # bytes in memory
    threads: int = 0
    descriptors: int = 0
    size: int = 0  # of a store: keys of a server, or bytes of a file


class Sampler:
    """Takes samples of one arm, and keeps them."""

    def __init__(self, arm: str, fleet: Fleet, store: TortureStore, file: Path) -> None:
        self._arm = arm
        self._fleet = fleet
        self._store = store
        self._file = file
        self._encoder = msgspec.json.Encoder()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            for sample in [*self._processes(), *await asyncio.to_thread(lambda: list(self._of_store()))]:
                with self._file.open("ab") as file:
                    file.write(self._encoder.encode(sample) + b"\n")
            await asyncio.sleep(EVERY)

    def _processes(self) -> Iterator[Sample]:
        for member in list(self._fleet.members):
            with contextlib.suppress(OSError):  # it has ended
                yield self._of(member.role, member.name, member.pid)
            for pid in member.children():
                with contextlib.suppress(OSError):
                    yield self._of("child", f"{member.name}/{pid}", pid)

    def _of(self, role: str, process: str, pid: int) -> Sample:
        proc = Path(f"/proc/{pid}")
        return Sample(
            self._arm,
            time.monotonic(),
            role,
            process,
            rss=int((proc / "statm").read_text().split()[1]) * PAGE_SIZE,
            threads=len(list((proc / "task").iterdir())),
            descriptors=len(list((proc / "fd").iterdir())),
        )

    def _of_store(self) -> Iterator[Sample]:
        if self._store.file is not None:
            size = sum(path.stat().st_size for path in self._store.file.parent.glob("jobs.db*"))
            yield Sample(self._arm, time.monotonic(), "store", self._arm, size=size)
            return
        server = self._store.server
        with contextlib.suppress(OSError, RuntimeError, ServerError):  # it is away
            keys = server.command("DBSIZE")
            assert isinstance(keys, int)
            yield msgspec.structs.replace(self._of("store", self._arm, server.pid), size=keys)


def read_samples(file: Path) -> list[Sample]:
    decoder = msgspec.json.Decoder(Sample)
    return [decoder.decode(line) for line in file.read_bytes().splitlines()]
