"""One case in a process of its own: a store on one event loop, figures as JSON on standard output."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Callable

from .events import events
from .limited import limited
from .measures import measure_all, measure_all_relaxed
from .postgres_promises import postgres_promises
from .postgres_raw import raw_limit as postgres_raw_limit
from .promises import promises
from .raw import raw_limit
from .two_processes import by_hand, two_processes

KINDS = {
    "store": measure_all,
    "store-relaxed": measure_all_relaxed,
    "raw": raw_limit,
    "postgres-raw": postgres_raw_limit,
    "postgres-promises": postgres_promises,
    "promises": promises,
    "events": events,
    "limits": limited,
    "two-processes": two_processes,
    "by-hand": by_hand,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("url")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    measure = KINDS[options.kind]
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        print(json.dumps(runner.run(measure(options.url, options.scale))))


def loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
