"""`python -m benchmarks`: every store in interleaved rounds, medians, and shares of the raw limit.

Absolute figures move from machine to machine; ratios in one run hold. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from .bars import bars
from .report import Results, medians_of, show, write
from .rows import Missing, Row, Stand, loops_here, our_rows, peer_rows

#: Seconds after which a row is given up.
TIMEOUT = 600


def main() -> None:
    options = _options()
    stores = options.stores.split(",")
    results: Results = defaultdict(lambda: defaultdict(list))
    notes: dict[str, str] = {}
    with ExitStack() as stack:
        stand = Stand(stack)
        rows: list[Row | Missing] = [*our_rows(stores, stand)]
        if options.peers:
            rows += peer_rows(stores, stand, lambda name: _is_wanted(name, options.only))
        notes |= {row.name: row.why for row in rows if isinstance(row, Missing)}
        runnable = [row for row in rows if isinstance(row, Row) and _is_wanted(row.name, options.only)]
        for number in range(options.rounds):
            for row in runnable:
                print(f"round {number + 1} of {options.rounds}: {row.name}", file=sys.stderr)
                _measure(row, options.scale, results, notes)
        redis = stand.kind if "redis" in stores else ""
    medians = medians_of(results)
    verdict = bars(medians, redis=redis, loop=loops_here()[-1])
    show(medians, notes, verdict)
    if options.json:
        write(options.json, results, notes, verdict)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="how much to do, 1 = 50,000 jobs in bulk")
    parser.add_argument("--stores", default="memory,sqlite,redis,postgres")
    parser.add_argument(
        "--peers", action="store_true", help="measure others too, in environments of their own"
    )
    parser.add_argument(
        "--only", action="append", help="only the rows with this in their names; may be given several times"
    )
    parser.add_argument("--json", type=Path, help="write every figure of every round there")
    return parser.parse_args()


def _is_wanted(name: str, only: list[str] | None) -> bool:
    return not only or any(part in name for part in only)


def _measure(row: Row, scale: float, results: Results, notes: dict[str, str]) -> None:
    """A row that fails is noted and does not spoil the others."""
    if row.server is not None:
        row.server.command("FLUSHALL")
    if row.database is not None:
        row.database.recreate()
    environment = os.environ | (row.database.environment if row.database else {})
    for file in row.folder.iterdir() if row.folder else ():
        file.unlink()
    try:
        done = subprocess.run(
            [*row.command, str(scale)],
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=environment,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or "").strip().splitlines()
        notes[row.name] = f"failed: {words[-1] if words else error}"
        print(notes[row.name], file=sys.stderr)
        return
    for figure, value in json.loads(done.stdout.splitlines()[-1]).items():
        results[row.name][figure].append(value)


if __name__ == "__main__":
    main()
