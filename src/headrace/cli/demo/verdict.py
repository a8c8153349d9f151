"""The demo's last page: what was promised, what was seen, and what to try next."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.table import Table

from headrace.cli.output.render import console, echo

from . import play
from .play import Seen


class Line(msgspec.Struct, frozen=True):
    """One promise. `kept` is what the demo is judged by."""

    what: str
    promised: str
    seen: str
    kept: bool


def lines_of(seen: Seen) -> list[Line]:
    """Every promise of the demo, held against what was seen."""
    ended, fine = seen.succeeded + seen.dead, seen.enqueued - play.REFUNDS
    return [
        Line("enqueued jobs that ended", f"{seen.enqueued:,}", f"{ended:,}", ended == seen.enqueued),
        Line("lost", "0", f"{seen.lost}", seen.lost == 0),
        Line("succeeded", f"{fine:,}", f"{seen.succeeded:,}", seen.succeeded == fine),
        Line("payments retried", f"{play.PAYMENTS}", f"{seen.retried}", seen.retried == play.PAYMENTS),
        Line(
            "recovered from the killed worker",
            f"{seen.in_hand} or more",  # counted just before it is killed
            f"{seen.recovered}",
            seen.recovered >= seen.in_hand > 0,
        ),
        Line("in the dead letters", f"{play.REFUNDS}", f"{seen.dead}", seen.dead == play.REFUNDS),
        Line("jobs of five unique calls", "1", f"{seen.unique}", seen.unique == 1),
        Line("delayed jobs that ran early", "0", f"{seen.early}", seen.early == 0),
        Line(
            "scheduled firings, and doubled ones",
            "1 or more, 0",
            f"{seen.tidied}, {seen.tidied_twice}",
            seen.tidied >= 1 and seen.tidied_twice == 0,
        ),
        Line("quick jobs a second, 2 workers", "", f"{seen.rate:,.0f}", True),
    ]


def show(seen: Seen, folder: Path) -> bool:
    """Print the table and the next steps; answers whether every promise was kept."""
    lines = lines_of(seen)
    table = Table(title=f"What was promised, and what was seen in {seen.seconds:.0f} s", title_justify="left")
    table.add_column("")
    table.add_column("promised", justify="right")
    table.add_column("seen", justify="right")
    table.add_column("kept")
    for line in lines:
        table.add_row(line.what, line.promised, line.seen, "yes" if line.kept else "NO")
    echo()
    console().print(table)
    _next_steps(folder)
    return all(line.kept for line in lines)


def _next_steps(folder: Path) -> None:
    url = f"sqlite:///{folder}/shop.db"
    echo("\nThe shop is still there. Try:\n")
    echo(f"  headrace status --url {url}")
    echo(f"  headrace dead list --url {url}")
    echo(f"  headrace dead replay --all --yes --url {url}\n")
