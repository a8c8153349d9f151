"""`headrace status`: queues, topics and workers of a store, once or live."""

from __future__ import annotations

import click

from headrace.app import App
from headrace.cli.output.render import show, show_json
from headrace.cli.target.option_types import setting, span_option
from headrace.cli.target.store import on_store
from headrace.cli.watch import watch as watch_store

from .snapshot import snapshot, snapshot_document, snapshot_view

#: The least seconds between two readings: each reads the whole store.
LEAST = 0.1


def _interval(text: str) -> float:
    seconds = span_option(text)
    if seconds < LEAST:
        raise click.BadParameter(f"{text!r} is too often: at least {LEAST} s")
    return seconds


@click.command()
@click.option("--watch", is_flag=True, help="Keep it up to date, with graphs and keys, until q or Ctrl-C.")
@setting(
    "interval",
    type=_interval,
    default="1s",
    metavar="SPAN",
    help="With --watch: how often to read the store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document; with --watch one a line.")
@on_store
def status(app: App, watch: bool, interval: float, as_json: bool) -> None:
    """Show queues, topics and workers at a glance.

    For each queue: its jobs by state, and how long the oldest queued job has waited. For each topic: its
    groups, and how many events each of them is behind.

    On a terminal, --watch fills the screen: warnings, the traffic of the last hour, and keys to pause, resume
    and replay (? explains them). Without a terminal it prints the status again and again.

    \b
    Examples:
      headrace status shop:app
      headrace status shop:app --watch
      headrace status shop:app --watch --interval 1m >> status.log
      headrace status --url sqlite:///jobs.db --json
    """
    if watch:
        code = watch_store(app, every=interval, as_json=as_json)
        if code:
            raise click.exceptions.Exit(code)
    elif as_json:
        show_json(snapshot_document(snapshot(app)))
    else:
        show(snapshot_view(snapshot(app)))
