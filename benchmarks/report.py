"""Tables of what was measured, for people and as JSON."""

from __future__ import annotations

import json
import platform
import statistics
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .bars import Bar, Medians
from .peers import EVENTS, LIMITS, TWO

#: Row → figure → the values of all rounds.
Results = dict[str, dict[str, list[float]]]

_WORDS = {True: "held", False: "not held", None: ""}


def medians_of(results: Results) -> Medians:
    return {
        name: {figure: statistics.median(values) for figure, values in row.items()}
        for name, row in results.items()
    }


def show(medians: Medians, notes: dict[str, str], bars: list[Bar]) -> None:
    console = Console(width=190)
    events = {name: row for name, row in medians.items() if name.startswith(EVENTS)}
    promises = {name: row for name, row in medians.items() if name.startswith("promises")}
    apart = {name: row for name, row in medians.items() if name.startswith(TWO)}
    limits = {name: row for name, row in medians.items() if name.startswith(LIMITS)}
    others = {*promises, *events, *apart, *limits}
    rates = {name: row for name, row in medians.items() if name not in others}
    if rates:
        console.print(_figures("jobs a second (median of the rounds), one process", rates))
    if apart:
        console.print(_figures("a producer that awaits each job, a worker in another process", apart))
    if promises:
        console.print(_figures("and further", promises))
    if events:
        console.print(_figures("events a second (median of the rounds), one process", events))
    if limits:
        console.print(_figures("limits, one process", limits))
    for name, note in notes.items():
        console.print(f"{name}: {note}", highlight=False)
    console.print(_verdict(bars))


def write(path: Path, results: Results, notes: dict[str, str], bars: list[Bar]) -> None:
    about = {"python": platform.python_version(), "machine": platform.machine()}
    verdict = [bar._asdict() for bar in bars]
    content = {"about": about, "results": results, "not measured": notes, "bars": verdict}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _figures(title: str, medians: Medians) -> Table:
    figures = list(dict.fromkeys(figure for row in medians.values() for figure in row))
    table = Table(title=title)
    table.add_column("")
    for figure in figures:
        table.add_column(figure, justify="right")
    for name, row in medians.items():
        raw = medians.get(f"raw limit, {name}", {})
        table.add_row(name, *(_cell(row.get(figure), raw.get(figure), figure) for figure in figures))
    return table


def _cell(value: float | None, raw: float | None, figure: str) -> str:
    if value is None:
        return ""
    if figure.endswith(("ms", "a second")):
        return f"{value:.2f}"
    share = f" ({value / raw:.0%} of raw)" if raw else ""
    return f"{value:,.0f}{share}"


def _verdict(bars: list[Bar]) -> Table:
    table = Table(title="what is asked")
    for column in ("", "asked", "measured", ""):
        table.add_column(column)
    for bar in bars:
        style = "red" if bar.held is False else None
        table.add_row(bar.what, bar.asked, bar.measured, _WORDS[bar.held], style=style)
    return table
