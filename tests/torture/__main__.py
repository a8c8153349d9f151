"""`python -m tests.torture`: run rounds, print what is broken, and the figures. The exit code is 1 when a
rule is broken."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path
from random import Random
from types import FrameType

import msgspec

from .arena import Fault
from .campaign import RoundPlan, RoundResult, run_round
from .checker import told
from .faults import all_faults, skipped
from .page import reliability_page
from .report import Figures
from .rounds import DEFAULT_LEASE, campaign_rounds, pair, recovery_rounds, usual_rounds
from .stores import kinds

#: Bytes that the stores and logs of a campaign may take.
ROOM = 2 << 30


def main() -> int:
    signal.signal(signal.SIGTERM, _end)
    options = _options()
    seed = options.seed or str(Random().randrange(10**9))
    plans = [
        msgspec.structs.replace(_with_lease(plan, options.lease), rate=options.rate or plan.rate)
        for plan in _plans(options, seed)[: options.rounds]
    ]
    print(f"seed {seed}, {len(plans)} rounds")
    for name, why in skipped().items():
        print(f"left out: {name}: {why}")
    folder = Path(options.folder or tempfile.mkdtemp(prefix="torture-", dir=_quick_folder()))
    began = time.monotonic()
    results = asyncio.run(_run(plans, folder, keep=options.keep))
    figures = Figures(results, seconds=time.monotonic() - began)
    figures.skipped = skipped()
    print("\n".join(figures.lines()))
    if options.page:
        page = Path(options.page)
        before = page.read_text() if page.exists() else ""
        command = f'make torture ARGS="--seed {seed}"'
        text = reliability_page(figures, command=command, seed=seed, folder=page.parent, before=before)
        page.write_text(text)
    return 1 if figures.broken else 0


def _end(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the processes of the round, too."""
    sys.exit(128 + number)


def _quick_folder() -> Path | None:
    """In memory, where there is such a folder: processes are killed, not the machine, so what a store has
    written is there either way, and the speed of a disk says nothing."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def _plans(options: argparse.Namespace, seed: str) -> list[RoundPlan]:
    stores = options.stores.split(",") if options.stores else kinds()
    if options.recovery:
        return recovery_rounds(seed, stores)
    if not (options.workloads or options.faults or options.all):
        return usual_rounds(seed, stores)
    faults = [_fault(name) for name in options.faults.split(",")] if options.faults else None
    workloads = options.workloads.split(",") if options.workloads else None
    return campaign_rounds(seed, stores=stores, workloads=workloads, faults=faults)


def _with_lease(plan: RoundPlan, lease: float) -> RoundPlan:
    """Recovery is measured with the default lease. A disk that is not memory may stall for a second, when
    other programs write to it."""
    if plan.lease == DEFAULT_LEASE:
        return plan
    stalls = any(fault.disk == "real" for fault in plan.faults)
    return msgspec.structs.replace(plan, lease=2 * lease if stalls else lease)


def _fault(name: str) -> Fault:
    """`a`, or `a+b`: both at once."""
    first, *others = (all_faults()[each] for each in name.split("+"))
    return reduce(pair, others, first)


async def _run(plans: list[RoundPlan], folder: Path, *, keep: bool) -> list[RoundResult]:
    results: list[RoundResult] = []
    began = time.monotonic()
    for batch in _batches(plans):
        folders = [folder / f"round-{number}" for number, _ in enumerate(batch, len(results) + 1)]
        rounds = zip(batch, folders, strict=True)
        ended = await asyncio.gather(*(run_round(plan, place, keep=keep) for plan, place in rounds))
        for result, place in zip(ended, folders, strict=True):
            results.append(result)
            _print(result, place, number=len(results), spent=time.monotonic() - began)
    return results


def _batches(plans: list[RoundPlan]) -> list[list[RoundPlan]]:
    """Those that run at the same time."""
    batches: list[list[RoundPlan]] = []
    for plan in plans:
        if plan.beside and batches:
            batches[-1].append(plan)
        else:
            batches.append([plan])
    return batches


def _print(result: RoundResult, folder: Path, *, number: int, spent: float) -> None:
    plan = result.plan
    jobs = sum(story.is_promised for story in result.history.stories())
    state = f"{len(result.broken)} BROKEN" if result.broken else "good"
    print(f"{spent:6.0f} s  {number:>3}  {state:<10} {jobs:>6} messages {result.seconds:5.1f} s  {plan}")
    if result.broken:
        print("\n".join(told(result.history, result.broken, plan.seed)))
        print(f"logs: {folder}")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", help="that of an earlier run, to repeat its choices")
    parser.add_argument("--stores", help=f"with commas between; of this machine: {', '.join(kinds())}")
    parser.add_argument("--workloads", help="with commas between")
    parser.add_argument(
        "--faults", help=f"with commas between, two at once as a+b; {', '.join(all_faults())}"
    )
    parser.add_argument("--all", action="store_true", help="every workload with every fault on every store")
    parser.add_argument(
        "--recovery", action="store_true", help="measure recovery alone, with the default lease"
    )
    parser.add_argument("--rounds", type=int, help="at most so many")
    parser.add_argument("--lease", type=float, default=1.0, help="in seconds; longer on a busy machine")
    parser.add_argument(
        "--rate", type=float, help="messages a second of each producer; fewer on a busy machine"
    )
    parser.add_argument("--folder", help="for stores and logs; those of good rounds are removed")
    parser.add_argument("--page", help="write the figures to this file, as docs/reliability.md has them")
    parser.add_argument("--keep", action="store_true", help="keep the logs of good rounds too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
