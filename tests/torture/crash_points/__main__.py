"""`python -m tests.torture.crash_points`: kill and cancel at every point, and print what is broken. The exit
code is 1 when a rule is broken. A point is missed when no process came there again in three tries."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.__main__ import _quick_folder

from .campaign import cancel_all_calls, found_points, planned_rounds, run_all
from .coverage import never_reached
from .parts import call_names
from .rounds import PARTS, CallResult, CrashResult
from .stores import Lane, lanes

#: A line of progress after so many rounds.
TELL_EVERY = 50


def main() -> int:
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="crash-points-", dir=_quick_folder()))
    bad = 0
    for kind in options.stores.split(","):
        with lanes(kind, options.lanes, folder) as opened:
            bad += asyncio.run(_run(opened, options))
            bad += asyncio.run(_cancel_calls(opened, options))
    return 1 if bad else 0


async def _run(opened: list[Lane], options: argparse.Namespace) -> int:
    began, kind = time.monotonic(), opened[0].kind
    if not options.harms:
        return 0
    seen = await found_points(opened, options.parts.split(","))
    for name in never_reached(seen.values()):
        print(f"{kind}: never reached: {name}")
    plans = planned_rounds(kind, seen, options.harms.split(","))
    plans = [plan for plan in plans if options.only in str(plan)][options.offset :: options.step]
    print(f"{kind}: {len(plans)} rounds", flush=True)
    states: Counter[str] = Counter()

    def tell(result: CrashResult) -> None:
        states[result.state] += 1
        number = sum(states.values())
        if result.state != "held" or number % TELL_EVERY == 0:
            spent = time.monotonic() - began
            print(f"{spent:6.0f} s  {number:>4}  {result.state:<6}  {result.round} ({result.seconds:.1f} s)")
            if result.why:
                print(result.why, flush=True)

    await run_all(opened, plans, tell)
    print(f"{kind}: {dict(states)} in {time.monotonic() - began:.0f} s", flush=True)
    return states["broken"]


async def _cancel_calls(opened: list[Lane], options: argparse.Namespace) -> int:
    kind = opened[0].kind

    def tell(result: CallResult) -> None:
        print(f"{kind}: {result.name}: {result.cancellations} waits, {'BROKEN' if result.why else 'good'}")
        if result.why:
            print(result.why, flush=True)

    names = [name for name in call_names() if options.calls in name] if options.calls != "none" else []
    results = await cancel_all_calls(opened, names, tell)
    print(f"{kind}: {sum(each.cancellations for each in results)} cancellations of {len(names)} calls")
    return sum(bool(each.why) for each in results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.crash_points", description=__doc__)
    parser.add_argument("--stores", default="sqlite,valkey-9.1,memory", help="with commas between")
    parser.add_argument("--parts", default=",".join(PARTS), help="of the program, with commas between")
    parser.add_argument("--harms", default="kill,cancel,cancel-late,kill-child", help="empty: none")
    parser.add_argument("--calls", default="", help="public calls to cancel, by a part of the name; or none")
    parser.add_argument("--lanes", type=int, default=4, help="rounds at the same time")
    parser.add_argument("--only", default="", help="rounds whose line has this in it")
    parser.add_argument("--step", type=int, default=1, help="every n-th round")
    parser.add_argument("--offset", type=int, default=0, help="from this round on")
    parser.add_argument("--folder", help="for stores and logs; those of good rounds are removed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
