"""`python -m tests.torture`: run rounds, print what is broken, and the figures. The exit code is 1 when a
rule is broken."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path
from random import Random

import msgspec

from .arena import Fault
from .campaign import RoundPlan, RoundResult, run_round
from .checker import told
from .faults import all_faults
from .report import Figures
from .rounds import campaign_rounds, pair, usual_rounds
from .stores import kinds

#: Bytes that the stores and logs of a campaign may take.
ROOM = 2 << 30


def main() -> int:
    options = _options()
    seed = options.seed or str(Random().randrange(10**9))
    plans = [
        msgspec.structs.replace(plan, lease=options.lease) for plan in _plans(options, seed)[: options.rounds]
    ]
    print(f"seed {seed}, {len(plans)} rounds")
    folder = Path(options.folder or tempfile.mkdtemp(prefix="torture-", dir=_quick_folder()))
    results = asyncio.run(_run(plans, folder, keep=options.keep))
    figures = Figures(results)
    print("\n".join(figures.lines()))
    if options.page:
        Path(options.page).write_text(figures.page(command="make torture", seed=seed))
    return 1 if figures.broken else 0


def _quick_folder() -> Path | None:
    """In memory, where there is such a folder: processes are killed, not the machine, so what a store has
    written is there either way, and the speed of a disk says nothing."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def _plans(options: argparse.Namespace, seed: str) -> list[RoundPlan]:
    stores = options.stores.split(",") if options.stores else kinds()
    if not (options.workloads or options.faults or options.all):
        return usual_rounds(seed, stores)
    faults = [_fault(name) for name in options.faults.split(",")] if options.faults else None
    workloads = options.workloads.split(",") if options.workloads else None
    return campaign_rounds(seed, stores=stores, workloads=workloads, faults=faults)


def _fault(name: str) -> Fault:
    """`a`, or `a+b`: both at once."""
    first, *others = (all_faults()[each] for each in name.split("+"))
    return reduce(pair, others, first)


async def _run(plans: list[RoundPlan], folder: Path, *, keep: bool) -> list[RoundResult]:
    results: list[RoundResult] = []
    began = time.monotonic()
    for number, plan in enumerate(plans, 1):
        result = await run_round(plan, folder / f"round-{number}", keep=keep)
        results.append(result)
        jobs = sum(story.is_promised for story in result.history.stories())
        state = f"{len(result.broken)} BROKEN" if result.broken else "good"
        spent = time.monotonic() - began
        print(f"{spent:6.0f} s  {number:>3}  {state:<10} {jobs:>6} messages {result.seconds:5.1f} s  {plan}")
        if result.broken:
            print("\n".join(told(result.history, result.broken, plan.seed)))
            print(f"logs: {folder}/round-{number}")
        sys.stdout.flush()
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", help="that of an earlier run, to repeat its choices")
    parser.add_argument("--stores", help=f"with commas between; of this machine: {', '.join(kinds())}")
    parser.add_argument("--workloads", help="with commas between")
    parser.add_argument(
        "--faults", help=f"with commas between, two at once as a+b; {', '.join(all_faults())}"
    )
    parser.add_argument("--all", action="store_true", help="every workload with every fault on every store")
    parser.add_argument("--rounds", type=int, help="at most so many")
    parser.add_argument("--lease", type=float, default=1.0, help="in seconds; longer on a busy machine")
    parser.add_argument("--folder", help="for stores and logs; those of good rounds are removed")
    parser.add_argument("--page", help="write the figures to this file, as docs/reliability.md has them")
    parser.add_argument("--keep", action="store_true", help="keep the logs of good rounds too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
