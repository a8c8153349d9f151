"""`headrace limits`: list, set and clear limits."""

from __future__ import annotations

import click
from rich.text import Text

from headrace.admin import LimitInfo
from headrace.app import App
from headrace.cli.output.render import echo, json_list_option, json_option, short, show, show_json
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.listing_group import ListingGroup
from headrace.cli.target.store import on_store, on_store_with


@click.group(cls=ListingGroup)
def limits() -> None:
    """List limits, or change them while workers run.

    A worker declares the limits of its tasks and queues when it starts. A limit without a name is called
    task:NAME or queue:NAME.

    \b
    Examples:
      headrace limits shop:app
      headrace limits set shop:app stripe --max-running 5
      headrace limits clear shop:app stripe
    """


@limits.command("list")
@json_list_option
@on_store
def list_limits(app: App, as_json: bool) -> None:
    """List limits by name, with what they allow and count.

    \b
    Examples:
      headrace limits list shop:app
      headrace limits list --url redis://localhost:6379/0 --json
    """
    found = app.sync.admin.limits()
    if as_json:
        show_json(found)
    elif found:
        show(_table(found))
    else:
        echo("there are no limits; a worker declares those of its tasks, such as @app.task(max_running=10)")


@limits.command("set")
@click.option("--rate", metavar="N/UNIT", help="How many jobs may start, such as 100/s, 20/m, 5/h or 1/d.")
@click.option("--burst", type=int, metavar="N", help="How many of them may start at once.")
@click.option("--max-running", type=int, metavar="N", help="How many jobs may run at once; 0: none start.")
@json_option
@on_store_with("NAME...")
def set_limits(
    app: App,
    names: tuple[str, ...],
    rate: str | None,
    burst: int | None,
    max_running: int | None,
    as_json: bool,
) -> None:
    """Override what a limit allows, for all workers.

    This holds until headrace limits clear, also after workers start again. What you do not give stays as it
    is; only a new rate without --burst has its usual burst.

    \b
    Examples:
      headrace limits set shop:app stripe --max-running 5
      headrace limits set shop:app task:shop.mail --rate 20/m
    """
    if rate is None and burst is None and max_running is None:
        raise click.UsageError("Say what it allows: --rate, --burst or --max-running.")
    for name in names:
        app.sync.admin.set_limit(name, rate=rate, burst=burst, max_running=max_running)
        if not as_json:
            echo(f"{name} is set; headrace limits clear undoes it")
    if as_json:
        show_json({"set": names})


@limits.command("clear")
@json_option
@on_store_with("NAME...")
def clear_limits(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """Undo headrace limits set: the declared figures hold again.

    \b
    Examples:
      headrace limits clear shop:app stripe
    """
    for name in names:
        app.sync.admin.clear_limit(name)
        if not as_json:
            echo(f"{name} is as the code declares it")
    if as_json:
        show_json({"cleared": names})


def _table(found: list[LimitInfo]) -> FittedTable:
    listing = FittedTable(
        Column("limit", keeps="end"),
        Column("running", right=True),
        Column("of", right=True),
        Column("rate", right=True),
        Column("burst", right=True, spare=2),
        Column("waiting", right=True),
        Column("keys", right=True, spare=1),
        Column("set", spare=3),
    )
    for info in found:
        listing.add(
            short(info.name),
            f"{info.running:,}",
            "any" if info.max_running is None else f"{info.max_running:,}",
            info.rate or "any",
            "" if info.burst is None else f"{info.burst:,}",
            f"{info.waiting:,}",
            f"{info.keys:,}" if info.keys else "",
            Text("by hand", style="yellow") if info.overridden else "",
        )
    return listing
