"""`python -m tests.torture.soak --hours 1`: a steady load with rare faults, and a verdict. The exit code is 1
when something grows, leaks or breaks a rule."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tests.torture.stores import kinds

from .arm import Arm, ArmPlan
from .census import Census
from .outcome import OUTCOME, SAMPLES, Findings, SoakOutcome, arm_outcome
from .page import lines, page
from .picture import picture

#: Seconds of the short run that shows what a store has when all is done.
SHORT: Final = 60.0

#: Faults of a run, about, and the bounds of the seconds between two.
FAULTS: Final = 22
PAUSES: Final = (12.0, 180.0)


def main() -> int:
    options = _options()
    folder = Path(options.read or options.folder or tempfile.mkdtemp(prefix="soak-"))
    if not options.read:
        asyncio.run(_soak(options, folder))
    findings = Findings.read(folder)
    print("\n".join(lines(findings)))
    if options.page:
        _write(findings, Path(options.page), Path(options.picture))
    print(f"samples and outcome: {folder}")
    return 0 if findings.good else 1


async def _soak(options: argparse.Namespace, folder: Path) -> None:
    seed = options.seed or str(Random().randrange(10**9))
    seconds = options.hours * 3600
    pause = min(max(seconds / FAULTS, PAUSES[0]), PAUSES[1])
    stores = options.stores.split(",")
    print(f"seed {seed}, {options.hours:g} h on {', '.join(stores)}, folder {folder}", flush=True)
    plans = [ArmPlan(store, seconds, seed, rate=options.rate, pause=pause) for store in stores]
    arms = [Arm(plan, folder / plan.store, folder / SAMPLES) for plan in plans]
    errors = await asyncio.gather(*(arm.run(_baseline(arm, folder)) for arm in arms), return_exceptions=True)
    outcomes = [
        arm_outcome(arm, error if isinstance(error, BaseException) else None)
        for arm, error in zip(arms, errors, strict=True)
    ]
    day = datetime.now(UTC).date().isoformat()
    outcome = SoakOutcome(seed=seed, hours=options.hours, day=day, arms=outcomes)
    (folder / OUTCOME).write_bytes(msgspec.json.encode(outcome))


async def _baseline(arm: Arm, folder: Path) -> Census:
    """The census of another store of this kind, after a short run without faults in the warm-up of an arm."""
    await arm.started.wait()
    plan = msgspec.structs.replace(arm.plan, seconds=SHORT, pause=0.0)
    short = Arm(plan, folder / f"{plan.store}-short", folder / "short.jsonl")
    found = await short.run()
    assert not short.left, f"the short run on {plan.store} leaves {short.left}"
    return found


def _write(findings: Findings, page_file: Path, picture_file: Path) -> None:
    picture_file.parent.mkdir(parents=True, exist_ok=True)
    picture_file.write_text(picture(findings))
    relative = picture_file.resolve().relative_to(page_file.resolve().parent)
    page_file.write_text(page(findings, picture=str(relative)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of the steady load; 0.05 for a rehearsal")
    parser.add_argument(
        "--stores", default="valkey-9.1,sqlite", help=f"of this machine: {', '.join(kinds())}"
    )
    parser.add_argument("--rate", type=float, default=60.0, help="jobs in a second on each store")
    parser.add_argument("--seed", help="that of an earlier run, to repeat its choices")
    parser.add_argument("--folder", help="for stores, logs and samples; an empty one")
    parser.add_argument("--read", help="run nothing: read the folder of an earlier run")
    parser.add_argument("--page", help="write the figures to this file")
    parser.add_argument("--picture", default="docs/images/soak.svg", help="the picture of that page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
