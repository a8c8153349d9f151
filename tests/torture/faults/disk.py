"""A disk that is full for a while, and one that cannot be written to."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.torture.arena import SQLITE, Arena, Fault
from tests.torture.stores import REAL_DISK, cannot_mount

#: Linux: read and write the attributes of a file, and the attribute with which nothing may change it
#: (linux/fs.h).
GET_FLAGS, SET_FLAGS, IMMUTABLE = 0x80086601, 0x40086602, 0x10


async def _fill(arena: Arena) -> None:
    """Another program takes all room, and also what becomes free."""
    assert arena.store.file is not None
    ballast = arena.store.file.with_name("ballast")
    async with arena.store_fault("disk-full"):
        for _ in range(20):
            _take_all(ballast)
            await arena.pause(leases=0.1)
        ballast.unlink()


def _take_all(ballast: Path) -> None:
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def _refuse_writes(arena: Arena) -> None:
    """As when a system mounts a faulty disk for reading only: every write fails, also by those that have the
    file open."""
    assert arena.store.file is not None
    name = arena.store.file.name
    async with arena.store_fault("disk-read-only"):
        with contextlib.ExitStack() as stack:
            for path in arena.store.file.parent.glob(f"{name}*"):
                if not path.name.endswith("-shm"):  # it is memory
                    stack.enter_context(_immutable(path))
            await arena.pause(leases=2)


@contextmanager
def _immutable(path: Path) -> Iterator[None]:
    file = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(file, GET_FLAGS, bytes(struct.calcsize("l"))))
        fcntl.ioctl(file, SET_FLAGS, struct.pack("l", flags | IMMUTABLE))
        try:
            yield
        finally:
            fcntl.ioctl(file, SET_FLAGS, struct.pack("l", flags))
    finally:
        os.close(file)


@cache
def _cannot_refuse() -> str:
    try:
        with tempfile.NamedTemporaryFile(dir=REAL_DISK) as file, _immutable(Path(file.name)):
            return "" if _is_refused(file.fileno()) else f"{REAL_DISK} lets those write that have a file open"
    except OSError as error:
        return f"files in {REAL_DISK} cannot be made read-only ({error})"


def _is_refused(file: int) -> bool:
    try:
        os.write(file, b"x")
    except PermissionError:
        return True
    return False


FAULTS = [
    Fault("disk-full", _fill, SQLITE, disk="small", missing=cache(cannot_mount)),
    Fault("disk-read-only", _refuse_writes, SQLITE, disk="real", missing=_cannot_refuse),
]
