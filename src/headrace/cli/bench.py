"""`headrace bench`: what the user's own store can do."""

from __future__ import annotations

import asyncio
from typing import cast, get_args

import click
import msgspec

from headrace.app import App, Durability
from headrace.backends import DEFAULT_URL
from headrace.core.errors import ConfigurationError

from .locate import locate
from .loop import loop_factory
from .measures import Figures, beside, measure
from .render import console, echo, is_terminal, show, show_json
from .table import Column, Listing


@click.command()
@click.argument("target", required=False, metavar="[URL | MODULE:APP]")
@click.option(
    "--url", envvar="HEADRACE_URL", metavar="URL", help="The store; default: sqlite:///headrace.db."
)
@click.option(
    "--durability",
    envvar="HEADRACE_DURABILITY",
    type=click.Choice(get_args(Durability)),
    default="default",
    show_default=True,
    help="How safely jobs are stored meanwhile.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def bench(target: str | None, url: str | None, durability: str, as_json: bool) -> None:
    """Measure your store for a few seconds.

    How fast jobs are enqueued and drained, and how soon a waiting worker starts one. Producer and worker
    share this process. The jobs lie in a namespace of their own, for SQLite in a file of their own in the
    same folder, and are removed at the end.

    \b
    Examples:
      headrace bench
      headrace bench redis://localhost:6379/0
      headrace bench shop:app --json
    """
    place = _url(target, url)
    store = App(place, durability=cast(Durability, durability)).description
    with beside(place) as own:
        figures = _measured(own, cast(Durability, durability))
    if as_json:
        show_json({"store": store, **msgspec.structs.asdict(figures)})
    else:
        echo(f"{store}\n")
        _show(figures)


def _url(target: str | None, url: str | None) -> str:
    if target is None:
        return url or DEFAULT_URL
    return target if "://" in target else _url_of(target)


def _url_of(target: str) -> str:
    found = locate(target).url
    if found is None:
        raise ConfigurationError(f"{target} has a store of its own (store=), which has no URL to measure")
    return found


def _measured(url: str, durability: Durability) -> Figures:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if not is_terminal("stderr"):
            return runner.run(measure(url, durability, _say))
        with console(stderr=True).status("measuring") as spinner:
            return runner.run(measure(url, durability, lambda what: spinner.update(f"measuring: {what}")))


def _say(what: str) -> None:
    echo(f"measuring: {what}", err=True)


def _show(figures: Figures) -> None:
    listing = Listing(Column("measure"), Column("figure", right=True), Column("unit"))
    rows = [
        ("enqueue, one by one", f"{figures.enqueue_per_second:,.0f}", "jobs/s"),
        ("enqueue_many", f"{figures.bulk_per_second:,.0f}", "jobs/s"),
        ("drain, handlers that do nothing", f"{figures.drain_per_second:,.0f}", "jobs/s"),
        ("pick-up on an idle queue, median", f"{figures.pick_up_p50_ms:.1f}", "ms"),
        ("pick-up on an idle queue, 99 of 100", f"{figures.pick_up_p99_ms:.1f}", "ms"),
    ]
    for row in rows:
        listing.add(*row)
    show(listing)
