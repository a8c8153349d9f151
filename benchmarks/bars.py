"""What is asked, as ratios within one run or as plain limits, held against what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .peers import (
    CHASQUIMQ,
    EVENTS,
    FASTSTREAM,
    HUEY_MEMORY,
    HUEY_SQLITE,
    HUEY_SQLITE_FSYNC,
    IN_MEMORY,
    POSTGRES_PEERS,
    PURE_PYTHON,
    TWO,
    TWO_HUEY_REDIS,
    TWO_HUEY_SQLITE,
)

#: Row → figure → median.
Medians = dict[str, dict[str, float]]

DRAIN, BULK = "drain no-op", "enqueue_many"
SINGLE, CONCURRENT = "enqueue one by one", "enqueue, 100 coroutines"
PICK_UP = "pick-up p50, ms"
CONSUME, CONSUME_BATCH = "consume, 1 group", "consume, batch"


class Bar(NamedTuple):
    """A line of the verdict. `held` is None where something was not measured."""

    what: str
    asked: str
    measured: str
    held: bool | None


def bars(medians: Medians, *, redis: str, loop: str) -> list[Bar]:
    """Every bar, for ours on `loop`, on the server of that kind."""
    return [
        *_redis_bars(medians, redis, loop),
        *_other_bars(medians, loop),
        *_postgres_bars(medians),
        *_two_processes_bars(medians, redis, loop),
        *_events_bars(medians, redis, loop),
    ]


def _redis_bars(medians: Medians, redis: str, loop: str) -> Iterator[Bar]:
    ours, raw = f"{redis}, {loop}", [f"raw limit, {redis}, {loop}"]
    others = [*PURE_PYTHON, CHASQUIMQ]
    yield _share(medians, ours, DRAIN, raw, 0.30, "of the raw limit")
    yield _share(medians, ours, DRAIN, PURE_PYTHON, 20, "the best pure-Python peer")
    yield _share(medians, f"redis-8, {loop}", DRAIN, [CHASQUIMQ], 4, "ChasquiMQ")
    yield _share(medians, ours, BULK, raw, 0.35, "of the raw limit")
    yield _share(medians, ours, CONCURRENT, others, 4, "the best peer")
    yield _share(medians, ours, SINGLE, others, 1.2, "the fastest peer")
    yield _no_later(medians, ours, others)
    promises = f"promises, {redis}, {loop}"
    yield _limit(medians, promises, "late p50, ms", most=5)
    yield _limit(medians, promises, "earliest, ms", least=0)
    yield _limit(medians, promises, "idle, commands a second", most=3)
    yield _share(
        medians, promises, "drain before a backlog", [promises], 0.9, "of the same alone", "drain alone"
    )
    yield _limit(medians, promises, "scripts p99.9, ms", most=5)


def _other_bars(medians: Medians, loop: str) -> Iterator[Bar]:
    sqlite = f"sqlite FULL, {loop}"
    for huey, name in ((HUEY_SQLITE_FSYNC, "SqliteHuey with fsync"), (HUEY_SQLITE, "SqliteHuey without")):
        yield _share(medians, sqlite, DRAIN, huey, 5, name)
        yield _share(medians, sqlite, BULK, huey, 20, name)
    yield _no_later(medians, sqlite, [*HUEY_SQLITE, *HUEY_SQLITE_FSYNC])
    yield _share(medians, f"memory, {loop}", DRAIN, IN_MEMORY, 10, "the best of the others in memory")
    concurrent = [row for row in IN_MEMORY if row != HUEY_MEMORY[0]]
    yield _share(medians, f"memory, {loop}", DRAIN, concurrent, 10, "the best that runs several at a time")


def _postgres_bars(medians: Medians) -> Iterator[Bar]:
    """Of durable jobs. The rows are named in rows.py."""
    ours = "postgres, synchronous_commit on"
    raw, promises = f"raw limit, {ours}", f"promises, {ours}"
    peers = [f"{peer.name}, {ours}" for peer in POSTGRES_PEERS]
    for figure in (DRAIN, BULK):
        yield _share(medians, ours, figure, [raw], 0.5, "of the limit by hand")
        yield _beyond_peers(medians, ours, figure, peers, raw)
    yield _no_later(medians, ours, peers)
    yield _limit(medians, promises, "idle, statements a second", most=3)
    yield _share(
        medians, promises, "drain before a backlog", [promises], 0.9, "of the same alone", "drain alone"
    )


def _beyond_peers(medians: Medians, row: str, figure: str, peers: Sequence[str], raw: str) -> Bar:
    """Five times the best peer, or 60 % of the limit, whichever is less."""
    value = medians.get(row, {}).get(figure)
    limit = medians.get(raw, {}).get(figure)
    best = max(_known(medians, peers, figure), default=None)
    what, asked = f"{row}: {figure}", "≥ 5.0× the best peer, or 60% of the limit"
    if value is None or limit is None or best is None:
        return Bar(what, asked, "not measured", None)
    measured = (
        f"{_ratio(value / best)}, {_ratio(value / limit)} ({value:,.0f} to {best:,.0f} and {limit:,.0f})"
    )
    return Bar(what, asked, measured, value >= min(5 * best, 0.6 * limit))


def _two_processes_bars(medians: Medians, redis: str, loop: str) -> Iterator[Bar]:
    on_redis, on_sqlite = f"{TWO}, {redis}, {loop}", f"{TWO}, sqlite FULL, {loop}"
    yield _share(medians, on_redis, SINGLE, [TWO_HUEY_REDIS], 1.2, "RedisHuey")
    yield _no_longer(medians, on_redis, f"{TWO}, by hand, {redis}, {loop}", 0.5 / 0.34)
    yield _share(medians, on_sqlite, SINGLE, [TWO_HUEY_SQLITE], 1.1, "SqliteHuey with fsync")
    yield _limit(medians, on_sqlite, PICK_UP, most=3)


def _events_bars(medians: Medians, redis: str, loop: str) -> Iterator[Bar]:
    ours, theirs = f"{EVENTS}, {redis}, {loop}", [FASTSTREAM]
    yield _share(medians, ours, CONSUME, theirs, 5, "FastStream by default")
    yield _share(medians, ours, CONSUME_BATCH, theirs, 1, "FastStream's with max_records=500")
    yield _share(
        medians, ours, CONSUME_BATCH, theirs, 1, "FastStream's without max_records", "consume, one batch"
    )


def _share(
    medians: Medians, row: str, figure: str, rows: Sequence[str], least: float, of: str, other: str = ""
) -> Bar:
    """Ours as a share of the best of theirs."""
    value = medians.get(row, {}).get(figure)
    best = max(_known(medians, rows, other or figure), default=None)
    what = f"{row}: {figure}"
    asked = f"≥ {_ratio(least)} {of}"
    if value is None or not best:
        return Bar(what, asked, "not measured", None)
    return Bar(what, asked, f"{_ratio(value / best)} ({value:,.0f} to {best:,.0f})", value / best >= least)


def _no_later(medians: Medians, row: str, rows: Sequence[str]) -> Bar:
    value = medians.get(row, {}).get(PICK_UP)
    best = min(_known(medians, rows, PICK_UP), default=None)
    what, asked = f"{row}: {PICK_UP}", "≤ the best peer's"
    if value is None or best is None:
        return Bar(what, asked, "not measured", None)
    return Bar(what, asked, f"{value:.2f} to {best:.2f}", value <= best)


def _no_longer(medians: Medians, row: str, other: str, most: float) -> Bar:
    """As a multiple of what it takes by hand."""
    value, by_hand = medians.get(row, {}).get(PICK_UP), medians.get(other, {}).get(PICK_UP)
    what, asked = f"{row}: {PICK_UP}", f"≤ {most:.2f} times by hand"
    if value is None or by_hand is None:
        return Bar(what, asked, "not measured", None)
    return Bar(what, asked, f"{value / by_hand:.2f} ({value:.2f} to {by_hand:.2f})", value / by_hand <= most)


def _limit(
    medians: Medians, row: str, figure: str, *, least: float | None = None, most: float | None = None
) -> Bar:
    value = medians.get(row, {}).get(figure)
    asked = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    what = f"{row}: {figure}"
    if value is None:
        return Bar(what, asked, "not measured", None)
    held = (least is None or value >= least) and (most is None or value <= most)
    return Bar(what, asked, f"{value:.2f}", held)


def _known(medians: Medians, rows: Sequence[str], figure: str) -> Iterator[float]:
    return (medians[row][figure] for row in rows if figure in medians.get(row, {}))


def _ratio(value: float) -> str:
    return f"{value:.0%}" if value < 1 else f"{value:.1f}×"
