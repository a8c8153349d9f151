"""Limits as users see and change them."""

from __future__ import annotations

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.rate import Rate
from headrace.core.values.whole_numbers import positive_number, whole_number
from headrace.engine.streams import StreamRouter


class LimitInfo(msgspec.Struct, frozen=True):
    """A limit, and what it counts now.

    - `name`: its name; without one `task:NAME` or `queue:NAME`
    - `rate`: how many jobs may start, such as `"100/s"`
    - `burst`: how many of them may start at once
    - `max_running`: how many jobs may run at once
    - `running`: jobs that hold a slot of it
    - `waiting`: queued jobs that need one
    - `keys`: how many values of its `by` have a job that runs or waits
    - `overridden`: whether `set_limit` has set its figures
    - `declared`: what the code declares, in words
    """

    name: str
    rate: str | None = None
    burst: int | None = None
    max_running: int | None = None
    running: int = 0
    waiting: int = 0
    keys: int = 0
    overridden: bool = False
    declared: str = ""


def limit_info(record: LimitRecord) -> LimitInfo:
    figures = record.figures
    return LimitInfo(
        figures.name,
        rate=None if figures.rate is None else str(figures.rate),
        burst=None if figures.rate is None else figures.rate.burst,
        max_running=figures.max_running,
        running=record.running,
        waiting=record.waiting,
        keys=record.keys,
        overridden=record.is_overridden,
        declared="" if record.declared is None else str(record.declared),
    )


class LimitOverride(msgspec.Struct, frozen=True):
    """New figures for a limit. What is None stays as it is; only a new rate has its usual burst."""

    name: str
    rate: str | None = None
    burst: int | None = None
    max_running: int | None = None

    def __post_init__(self) -> None:
        if self.rate is None and self.burst is None and self.max_running is None:
            raise ConfigurationError("set_limit needs rate=, burst= or max_running=; clear_limit undoes it")
        if self.rate is not None:
            Rate.parse(self.rate)
        if self.burst is not None:
            positive_number("burst", self.burst)
        if self.max_running is not None:
            whole_number("max_running", self.max_running, least=0)

    async def apply(self, store: StreamRouter, declared: LimitFigures | None) -> None:
        """`declared`: the figures in the code of this app. Before a worker has declared them, this does."""
        known = await store.limits(counted=False)
        now = next((each.figures for each in known if each.figures.name == self.name), None)
        if now is None and declared is not None:
            await store.declare_limits([declared])
            now = declared
        if now is None or not await store.set_limit(self.name, self._figures(now)):
            raise no_such_limit(self.name)

    def _figures(self, now: LimitFigures) -> LimitFigures:
        max_running = now.max_running if self.max_running is None else self.max_running
        if self.rate is not None:
            return LimitFigures(self.name, max_running, Rate.parse(self.rate, self.burst))
        if self.burst is None:
            return LimitFigures(self.name, max_running, now.rate)
        if now.rate is None:
            raise ConfigurationError(
                f"limit {self.name!r} has no rate, so burst= means nothing: give rate= too"
            )
        return LimitFigures(self.name, max_running, msgspec.structs.replace(now.rate, burst=self.burst))


def no_such_limit(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no limit {name!r} in the store: a worker declares the limits of its tasks when it starts; "
        "a limit without a name is called task:NAME or queue:NAME"
    )
