"""`python -m tests.torture.seeded_bugs`: apply each seeded bug, run what must catch it, and print the table.
The exit code is 1 when nothing catches a bug, or when a test fails on the code as it is."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catching import Caught, Verdict, failing_unmutated, hunt, run_tests
from .mutated_tree import source_with
from .seeded_bug import SeededBug, all_bugs
from .table import line, page, summary


def main() -> int:
    options = _options()
    known = all_bugs()
    bugs = {name: known[name] for name in options.names or known}
    if options.tests:
        return _try(bugs, options.tests)
    if not options.mutated_only and (failing := failing_unmutated(bugs.values(), rounds=options.rounds)):
        for catch in failing:
            print(f"fails on the code as it is: {catch.name} {catch.why}")
        return 1
    results = _hunted(bugs, jobs=options.jobs, rounds=options.rounds)
    print(summary(results))
    if options.page:
        Path(options.page).write_text(page(results))
    return 0 if all(result.is_caught for result in results) else 1


def _hunted(bugs: Mapping[str, SeededBug], *, jobs: int, rounds: bool) -> list[Caught]:
    def hunted(item: tuple[str, SeededBug]) -> Caught:
        result = hunt(*item, rounds=rounds)
        print(line(result), flush=True)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(hunted, bugs.items()))


def _try(bugs: Mapping[str, SeededBug], tests: list[str]) -> int:
    """Run other tests on each bug and print those that fail: for the author of a bug."""
    for name, bug in bugs.items():
        print(name, flush=True)
        with source_with(bug) as source:
            for catch in run_tests(source, tests, more=False):
                if catch.verdict in (Verdict.CAUGHT, Verdict.BROKEN):
                    print(f"    {catch.verdict.value}: {catch.name}\n        {catch.why:.150}", flush=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.seeded_bugs", description=__doc__)
    parser.add_argument("names", nargs="*", help="bugs; all of them if none is named")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--no-rounds", dest="rounds", action="store_false", help="run tests alone")
    parser.add_argument(
        "--mutated-only", action="store_true", help="do not run the tests on the code as it is"
    )
    parser.add_argument(
        "--tests", type=shlex.split, help="for pytest, as one text: run these, print which fail"
    )
    parser.add_argument("--page", help="write the table to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
