"""A process of a round: does one part under the eyes of a probe, and ends."""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import os
from pathlib import Path

import msgspec

from tests.torture.program import FOLDER, NAME, URL

from .leaks import closed, left_behind, open_files
from .point import LEASE_SECONDS, Harmed, Point
from .probe import Probe, ReachedPoints


class Order(msgspec.Struct, frozen=True):
    """What a process does. With several parts, one follows the other in the same process."""

    name: str
    parts: tuple[str, ...]
    url: str
    folder: str
    lease: float
    harmed: Harmed | None = None


def run(order: Order, timeout: float) -> None:
    """The main function of a process that was forked. It is killed after `timeout`, and writes its stacks
    before."""
    os.environ |= {URL: order.url, FOLDER: order.folder, NAME: order.name, LEASE_SECONDS: str(order.lease)}
    output = os.open(Path(order.folder) / f"{order.name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    from . import script

    store = script.app._app_loop.backend.store
    probe = Probe(script.program.recorder, order.harmed)
    probe.install(type(store), type(store.lease_keeper()))
    files = open_files()
    faulthandler.dump_traceback_later(0.75 * timeout)
    asyncio.run(_act(order.parts))
    for what in left_behind(files):
        script.program.recorder.write("left", value=what)
    write_seen(Path(order.folder) / f"{order.name}.seen", probe.seen())


async def _act(parts: tuple[str, ...]) -> None:
    from .script import app, program, survived

    for part in parts:
        name, _, argument = part.partition(":")
        module = importlib.import_module(f"{__package__}.parts.{name}")
        await survived(module.act(*[argument] * bool(argument)))
        await survived(asyncio.sleep(0))  # a cancellation of the last call may come only now
        await closed(app)
    for what in left_behind(open_files()):
        program.recorder.write("left", value=what)


def write_seen(path: Path, seen: ReachedPoints) -> None:
    path.write_bytes(msgspec.msgpack.encode((list(seen.points.items()), sorted(seen.lines))))


def read_seen(path: Path) -> ReachedPoints:
    kind = tuple[list[tuple[Point, int]], set[tuple[str, int]]]
    points, lines = msgspec.msgpack.decode(path.read_bytes(), type=kind)
    return ReachedPoints(dict(points), lines)
