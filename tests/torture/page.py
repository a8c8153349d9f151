"""The page of the documentation with the figures of a campaign. None of its figures is written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .report import BAR_HEADS, HEADS, MEASURED_STORES, STORE_HEADS, Figures, grouped, machine

PAGE_HEAD = """\
# Reliability

headrace promises that an accepted job runs, that no other worker gets it meanwhile, that nothing runs twice
without a fault, and that recovery takes seconds. This page shows how these promises held in the last full run
of the torture harness: random programs on real stores, while real processes, servers and links were harmed.
Every process wrote down what it did. A checker compared what was accepted with what ran.
The harness wrote all figures on this page. [How it works](../tests/torture/README.md).

"""

#: Pages beside this one, each with its title and what it shows.
SIBLINGS = {
    "reliability-seeded-bugs.md": ("Seeded bugs", "would the tests notice a mistake in headrace itself?"),
    "reliability-soak.md": ("Soak", "memory, rate and faults over an hour and more"),
    "reliability-fleet.md": ("Fleet", "what 300 workers and 500 queues cost a server"),
}

#: The end of what this module writes. What others have added to the page below it stays.
PAGE_END = "<!-- The end of the figures of make torture. -->"

BAR_WORDS = """\
## The promises

*Bar* is what headrace must reach. *Of* says how many messages, runs or faults the figure is made of.

"""

RECOVERY_WORDS = """\
## Recovery

Measured with the default lease of 15 seconds, in rounds of their own. In brackets: how many runs, restarts or
workers a figure is made of.

"""

STORE_WORDS = """\
## Each store

A duplicate is *explained* when a fault hit the process of the first run, or the store, before the success of
this run was surely written.

"""

PAGE_WORDS = """\
## Each kind of fault

In these rounds the lease is one second, to have many faults in a short time. All times are in seconds.

- *duplicates*: runs of messages that had succeeded before. The fault explains them.
- *cut off*: runs that the fault ended before their handler did. *again*: the time until their message ran
  again. This takes about as long as the lease, because other workers wait for its end.
- *resumed*: for a fault of the store, the time from its end until the next run began.

"""


def reliability_page(figures: Figures, *, command: str, seed: str, folder: Path, before: str = "") -> str:
    """`folder`: where the pages of other measurements are. `before`: the page so far; what is below the
    figures there stays."""
    lines = [
        *PAGE_HEAD.splitlines(),
        f"**{_verdict(figures)}**",
        "",
        f"`{command}` repeats the choices of this run: they follow from the seed `{seed}`.",
        "The timing of real processes is never the same.",
        f"The run took {figures.seconds / 60:.1f} minutes on {machine()}.",
        "",
        *BAR_WORDS.splitlines(),
        *_table(BAR_HEADS, figures.bars()),
        "",
        *RECOVERY_WORDS.splitlines(),
        *_table(("measure", "bar", *MEASURED_STORES.values()), figures.recovery_rows()),
        "",
        *STORE_WORDS.splitlines(),
        *_table(STORE_HEADS, figures.store_rows()),
        "",
        *_table(("also counted", "figure"), figures.others()),
        "",
        *PAGE_WORDS.splitlines(),
        *_table(HEADS, figures.rows()),
        *(f"\nLeft out: {name}: {why}." for name, why in figures.skipped.items()),
        "",
        *_links(folder),
        PAGE_END,
    ]
    return "\n".join(lines) + (before.partition(PAGE_END)[2] or "\n")


def _verdict(figures: Figures) -> str:
    count = figures.count
    return (
        f"{grouped(count['jobs'])} jobs and {grouped(count['events'])} events went through"
        f" {grouped(count['faults'])} faults of {len(figures.faults)} kinds, on {_named(figures.stores)}."
        f" {count['lost']} were lost, {count['repeats unexplained']} ran twice without a reason, and"
        f" {count['foreign results']} results belonged to another job."
    )


def _links(folder: Path) -> list[str]:
    links = [
        f"- [{title}]({name}): {words}"
        for name, (title, words) in SIBLINGS.items()
        if (folder / name).exists()
    ]
    return ["## What else is measured", "", *links, ""] if links else []


def _named(stores: Iterable[str]) -> str:
    *names, last = sorted(stores)
    return f"{', '.join(names)} and {last}" if names else last


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [heads, ("---", *["---:"] * (len(heads) - 1)), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
