"""`python -m benchmarks`: every store in interleaved rounds, medians, and shares of the raw limit.

Absolute figures move from machine to machine; ratios in one run hold. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.servers import Server, available

from .environments import peer_cases

#: name of a row → figure → the values of all rounds
Results = dict[str, dict[str, list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="how much to do, 1 = 50,000 jobs in bulk")
    parser.add_argument("--stores", default="memory,sqlite,redis")
    parser.add_argument(
        "--peers", action="store_true", help="measure others too, in environments of their own"
    )
    parser.add_argument("--json", type=Path, help="write every figure of every round there")
    options = parser.parse_args()
    results: Results = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        cases = list(_cases(options.stores.split(","), stack))
        if options.peers:
            cases += peer_cases()
        for number in range(options.rounds):
            for name, command in cases:
                print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
                for figure, value in _run([*command, str(options.scale)]).items():
                    results[name][figure].append(value)
    _show(results)
    if options.json:
        about = {"python": platform.python_version(), "machine": platform.machine()}
        options.json.write_text(json.dumps({"about": about, "results": results}, indent=2) + "\n")


def _cases(stores: list[str], stack: ExitStack) -> Iterator[tuple[str, list[str]]]:
    for name, arguments in _arguments(stores, stack):
        yield name, [sys.executable, "-m", "benchmarks.case", *arguments, "--scale"]


def _arguments(stores: list[str], stack: ExitStack) -> Iterator[tuple[str, list[str]]]:
    loops = ["asyncio", "uvloop"] if _has_uvloop() else ["asyncio"]
    if "redis" in stores:
        kind, url = stack.enter_context(_redis())
        for loop in loops:
            yield f"raw limit, {kind}, {loop}", ["raw", url, "--loop", loop]
            yield f"{kind}, {loop}", ["store", url, "--loop", loop]
    if "sqlite" in stores:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for loop in loops:
            yield f"sqlite FULL, {loop}", ["store", f"sqlite:///{folder}/bench.db", "--loop", loop]
    if "memory" in stores:
        for loop in loops:
            yield f"memory, {loop}", ["store", "memory://", "--loop", loop]


@contextmanager
def _redis() -> Iterator[tuple[str, str]]:
    programs = {kind: program for kind, program in available().items() if program is not None}
    kind = next((kind for kind in ("redis-7.0", "valkey-9.1", "redis-6.2") if kind in programs), None)
    if kind is None:
        sys.exit("benchmarks: no Redis or Valkey server found; leave redis out of --stores")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(programs[kind], directory=Path(folder))
        server.start()
        try:
            yield kind, server.url
        finally:
            server.stop()


def _run(command: list[str]) -> dict[str, float]:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def _show(results: Results) -> None:
    figures = list(dict.fromkeys(figure for row in results.values() for figure in row))
    table = Table(title="jobs a second (median of the rounds), one process")
    table.add_column("")
    for figure in figures:
        table.add_column(figure, justify="right")
    medians = {
        name: {figure: statistics.median(values) for figure, values in row.items()}
        for name, row in results.items()
    }
    for name, row in medians.items():
        raw = medians.get(f"raw limit, {name}", {})
        table.add_row(name, *(_cell(row.get(figure), raw.get(figure), figure) for figure in figures))
    Console(width=170).print(table)


def _cell(value: float | None, raw: float | None, figure: str) -> str:
    if value is None:
        return ""
    if figure.endswith("ms"):
        return f"{value:.2f}"
    share = f" ({value / raw:.0%} of raw)" if raw else ""
    return f"{value:,.0f}{share}"


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main()
