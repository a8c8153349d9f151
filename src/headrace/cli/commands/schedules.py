"""`headrace schedules`: list, run, pause, resume and remove schedules."""

from __future__ import annotations

import click
from rich.text import Text

from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.render import clock_time, echo, json_list_option, json_option, short, show, show_json
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.listing_group import ListingGroup
from headrace.cli.target.store import on_store, on_store_with
from headrace.core.values.times import ago, parse_span, span
from headrace.jobs.scheduling.schedule_info import ScheduleInfo


@click.group(cls=ListingGroup)
def schedules() -> None:
    """List, run or pause schedules.

    The store knows the schedules of your code by name. Their times are shown when you give the app.

    \b
    Examples:
      headrace schedules shop:app
      headrace schedules run shop:app shop.tidy_up
      headrace schedules pause shop:app shop.tidy_up
      headrace schedules resume shop:app shop.tidy_up
    """


@schedules.command("list")
@json_list_option
@on_store
def list_schedules(app: App, as_json: bool) -> None:
    """List schedules by name, with the last and the next time.

    \b
    Examples:
      headrace schedules list shop:app
      headrace schedules list --url sqlite:///jobs.db --json
    """
    found = app.sync.schedules.list()
    if as_json:
        show_json(found)
    elif found:
        show(_table(found))
    else:
        echo("there are no schedules; @app.cron and @app.every make them")


@schedules.command()
@json_option
@on_store_with("NAME...")
def run(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """Enqueue the job of a schedule now; prints its id.

    Its times stay as they are, and a paused one stays paused.

    \b
    Examples:
      headrace schedules run shop:app shop.tidy_up
    """
    ids = {}
    for name in names:
        ids[name] = app.sync.schedules.run_now(name).id
        _tell(ids[name], as_json)
    if as_json:
        show_json({"ids": ids})


@schedules.command()
@json_option
@on_store_with("NAME...")
def pause(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """Pause a schedule: it makes no jobs until it is resumed.

    This holds for every worker.

    \b
    Examples:
      headrace schedules pause shop:app shop.tidy_up
    """
    for name in names:
        app.sync.schedules.pause(name)
        _tell(f"{name} is paused; headrace schedules resume resumes it", as_json)
    if as_json:
        show_json({"paused": names})


@schedules.command()
@json_option
@on_store_with("NAME...")
def resume(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """Resume a paused schedule.

    It fires at its next time. Times that passed meanwhile are not made up for.

    \b
    Examples:
      headrace schedules resume shop:app shop.tidy_up
    """
    for name in names:
        app.sync.schedules.resume(name)
        _tell(f"{name} is resumed", as_json)
    if as_json:
        show_json({"resumed": names})


@schedules.command()
@yes_option
@json_option
@on_store_with("NAME...")
def remove(app: App, names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove a schedule that was added at run time, after a question.

    Jobs that it made stay. A schedule that the code declares can only be paused.

    \b
    Examples:
      headrace schedules remove shop:app report-7 --yes
    """
    for name in names:
        confirm(f"Remove schedule {name}", yes=yes)
        app.sync.schedules.remove(name)
        _tell(f"{name} removed", as_json)
    if as_json:
        show_json({"removed": names})


def _tell(line: str, as_json: bool) -> None:
    """Print at once: the next name may fail."""
    if not as_json:
        echo(line)


def _table(found: list[ScheduleInfo]) -> FittedTable:
    listing = FittedTable(
        Column("schedule", keeps="end"),
        Column("when", keeps="start", least=30),
        Column("next", right=True),
        Column("at", spare=3),
        Column("last", right=True, spare=1),
        Column("task", keeps="end", spare=4),
        Column("queue", keeps="end", spare=2),
    )
    for info in found:
        listing.add(
            short(info.name),
            short(_when(info)),
            Text("paused", style="yellow") if info.paused else ago(info.next_at),
            "" if info.paused or info.next_at is None else clock_time(info.next_at),
            "never" if info.last_at is None else ago(info.last_at),
            short(info.task),
            short(info.queue),
        )
    return listing


def _when(info: ScheduleInfo) -> str:
    if info.cron is not None:
        return f"{info.cron} {info.tz}"
    if info.every is None:
        return "in the code"
    # Rounded only where nothing is lost: 3600 s are 60 min, and 3601 s are not.
    rounded = span(info.every)
    return f"every {rounded if parse_span(rounded) == info.every else f'{info.every:g} s'}"
