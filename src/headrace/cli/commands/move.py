"""`headrace move`: everything in one store goes to another one."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack

import click

from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import echo
from headrace.cli.target.option_types import setting, span_option
from headrace.cli.target.store import sqlite_file
from headrace.core.errors import ConfigurationError
from headrace.core.moving.moving import SetAside
from headrace.core.moving.seal import Seal
from headrace.core.values.whole_numbers import counted
from headrace.engine.moving.draining import Remaining
from headrace.engine.moving.move import Side, StoreMove
from headrace.stores import open_store

#: Seconds between two lines about what is waited for, and between two that say the same.
SAY_EVERY = 2.0
REPEAT_EVERY = 30.0

#: Options of a URL that may hold a password.
_SECRET = re.compile(r"[^=]*pass", re.IGNORECASE)

#: What is counted, and its name for people.
COUNTED = ("queued", "scheduled", "retrying", "dead", "events")


@click.command()
@click.option("--from", "source", metavar="URL", required=True, help="The store that is emptied.")
@click.option("--to", "target", metavar="URL", required=True, help="The store that takes everything.")
@setting("namespace", metavar="NAME", default="headrace", help="The app's, if it is not headrace.")
@setting(
    "drain-timeout",
    type=span_option,
    default="10m",
    metavar="SPAN",
    help="How long to wait for running work.",
)
@click.option("--cancel", is_flag=True, help="Use the source again, if nothing was copied yet.")
def move(source: str, target: str, namespace: str, drain_timeout: float, cancel: bool) -> None:
    """Move everything from one store to another.

    It seals the source: enqueue and publish raise a ConfigurationError there that names the target, and
    workers take nothing more. Running work ends. Then all that waits, is scheduled, retries or is dead moves,
    with its id, order and attempts; also schedules, unique keys, topics with the positions of their groups,
    kept results and pauses. History does not move.

    Give your processes the new URL, then start them again. An interrupted move goes on when you run the same
    command again: nothing is lost, and nothing is there twice. To move back, swap --from and --to.

    \b
    Examples:
      headrace move --from sqlite:///headrace.db --to redis://localhost
      headrace move --from redis://localhost --to postgresql://localhost/shop --drain-timeout 1h
      headrace move --from redis://localhost --to postgresql://localhost/shop --cancel
    """
    file = sqlite_file(source)
    if file is not None and not file.exists():
        raise ConfigurationError(f"--from: there is no file {file}")
    sides = _side("--from", source, namespace), _side("--to", target, namespace)
    if sides[0].name == sides[1].name:
        raise ConfigurationError(f"--from and --to are the same store, {sides[0].name}")
    try:
        asyncio.run(_run(*sides, drain_timeout=drain_timeout, cancel=cancel))
    except KeyboardInterrupt:
        echo(
            "interrupted: the source stays sealed. Run the command again to go on, or with --cancel", err=True
        )
        raise


def _side(option: str, url: str, namespace: str) -> Side:
    try:
        store = open_store(url, namespace=namespace)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option}: {error}") from error
    if url.startswith("memory://"):
        raise ConfigurationError(f"{option}: memory:// ends with its process, so nothing can be moved")
    return Side(store, shown_url(url) + ("" if namespace == "headrace" else f" (namespace {namespace})"))


def shown_url(url: str) -> str:
    """The URL without a password; of a SQLite file with the whole path."""
    file = sqlite_file(url)
    if file is not None:
        return f"sqlite:///{file.resolve()}"
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    base, _, query = place.partition("?")
    options = [option for option in query.split("&") if option and not _SECRET.match(option)]
    user = login.partition(":")[0]
    shown = f"{scheme}://{user + at if user else ''}{base}"
    return f"{shown}?{'&'.join(options)}" if options else shown


async def _run(source: Side, target: Side, *, drain_timeout: float, cancel: bool) -> None:
    async with AsyncExitStack() as stack:
        for side in (source, target) if not cancel else (source,):
            await side.store.open()
            stack.push_async_callback(side.store.close)
        watcher = stack.enter_context(MoveScreen(source, target))
        move = StoreMove(source, target, watcher)
        if cancel:
            sealed = await move.cancel()
            echo(f"{source.name} is in use again" if sealed else f"{source.name} is not being moved")
            return
        moved = await move.run(drain_limit=drain_timeout)
    if moved is None:
        echo(f"everything was moved to {target.name} before: nothing to do")
        return
    echo(f"moved: {_counts(moved)}; the target has taken as many")
    echo(f"{source.name} is empty and sealed. Give your processes the URL of {target.name}")


class MoveScreen:
    """Shows how the move goes on: lines, and a bar while it copies."""

    def __init__(self, source: Side, target: Side) -> None:
        self._source = source
        self._target = target
        self._written = ""
        self._written_at = -REPEAT_EVERY
        self._bar: ProgressBar | None = None

    def __enter__(self) -> MoveScreen:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    def sealed(self, seal: Seal) -> None:
        echo(f"sealed {self._source.name}: producers are sent to {seal.target}", err=True)

    def waits(self, remaining: Remaining) -> None:
        text = f"waiting for {remaining}"
        if time.monotonic() - self._written_at >= (REPEAT_EVERY if text == self._written else SAY_EVERY):
            self._written, self._written_at = text, time.monotonic()
            echo(text, err=True)

    def copies(self, streams: list[SetAside]) -> None:
        echo(f"to move: {_counts(streams)}", err=True)
        self._bar = ProgressBar("moving", sum(each.count for each in streams)).__enter__()

    def copied(self, count: int) -> None:
        if self._bar is not None:
            self._bar.reached(count)


def _counts(streams: list[SetAside]) -> str:
    numbers = {name: sum(getattr(each, name) for each in streams) for name in COUNTED}
    listed = ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)
    return f"{listed or 'nothing'} in {counted(len(streams), 'stream')}"
