"""`headrace pause`, `resume`, `purge` and `split`: what can be done to a whole queue."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

import click

from headrace.admin import Counted, QueueInfo
from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import counted, echo
from headrace.cli.target.place import remark
from headrace.cli.target.store import on_store_with
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import ConfigurationError
from headrace.core.rules.layout import checked_partitions

#: Seconds between two readings of the progress of a purge.
LOOK = 0.2


@click.command()
@on_store_with("QUEUE...")
def pause(app: App, queues: tuple[str, ...]) -> None:
    """Start no more jobs of a queue.

    This holds for every worker. Running jobs go on, and jobs can still be enqueued.

    \b
    Examples:
      headrace pause shop:app mails
      headrace pause --url sqlite:///jobs.db mails reports
    """
    for queue in queues:
        _remark_unknown(app, queue)
        app.sync.admin.pause(queue)
        echo(f"{queue} is paused; headrace resume resumes it")


@click.command()
@on_store_with("QUEUE...")
def resume(app: App, queues: tuple[str, ...]) -> None:
    """Resume a paused queue.

    \b
    Examples:
      headrace resume shop:app mails
    """
    for queue in queues:
        _remark_unknown(app, queue)
        app.sync.admin.resume(queue)
        echo(f"{queue} is resumed")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be cancelled.")
@yes_option
@on_store_with("QUEUE...")
def purge(app: App, queues: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Cancel all waiting jobs of a queue, after a question.

    These are queued, scheduled and retrying jobs. Running and dead jobs stay.

    \b
    Examples:
      headrace purge shop:app mails --dry-run
      headrace purge shop:app mails --yes
    """
    for queue in queues:
        _purge(app, _known(app, queue), dry_run=dry_run, yes=yes)


def _purge(app: App, queue: QueueInfo, *, dry_run: bool, yes: bool) -> None:
    total = _waiting(queue)
    if not total:
        echo(f"{queue.name} has no waiting jobs: nothing to cancel")
        return
    what = f"{counted(total, 'job')} of {queue.name} ({_parts(queue)})"
    if dry_run:
        echo(f"would cancel {what}")
        return
    confirm(f"Cancel {what}", yes=yes)
    purging = _in_background(app, queue.name)
    with ProgressBar(f"purging {queue.name}", total) as steps:
        while wait([purging], LOOK).not_done:
            steps.reached(max(0, total - _waiting(_known(app, queue.name))))
    purged = purging.result()
    least = "at least " if purged.uncertain else ""
    echo(f"{least}{counted(purged, 'job')} of {queue.name} cancelled")


@click.command()
@yes_option
@on_store_with("QUEUE PARTITIONS")
def split(app: App, names: tuple[str, str], yes: bool) -> None:
    """Change the number of partitions of a queue, after a question.

    Jobs can be enqueued and run meanwhile. Jobs that wait already stay in their part until they are done; new
    jobs go to the new parts. Jobs of different parts have no common order, and a limit holds for each part.

    \b
    Examples:
      headrace split shop:app mails 8
      headrace split shop:app mails 1 --yes
    """
    queue, number = names
    if not number.isdecimal():
        raise click.UsageError(f"PARTITIONS is a number, not {number!r}.")
    partitions = checked_partitions(int(number))
    known = _known(app, queue)
    if known.partitions == partitions:
        echo(f"{queue} has {counted(partitions, 'partition')} already")
        return
    confirm(f"Change {queue} from {counted(known.partitions, 'partition')} to {partitions}", yes=yes)
    app.sync.admin.split(queue, partitions)
    echo(f"new jobs of {queue} go to {counted(partitions, 'partition')}")


def _in_background(app: App, queue: str) -> Future[Counted]:
    other = ThreadPoolExecutor(1)
    try:
        return other.submit(app.sync.admin.purge, queue)
    finally:
        other.shutdown(wait=False)  # Ctrl-C closes the app, and that ends the purge


def _known(app: App, name: str) -> QueueInfo:
    queues = {queue.name: queue for queue in app.sync.admin.queues()}
    if name in queues:
        return queues[name]
    raise ConfigurationError(unknown("queue", name, queues))


def _remark_unknown(app: App, name: str) -> None:
    """A queue may be paused before its first job; more often the name is mistyped."""
    known = [queue.name for queue in app.sync.admin.queues()]
    declared = [task.options.queue for task in app.tasks.values()]
    if name not in (*known, *declared):
        remark(unknown("queue", name, {*known, *declared}))


def _waiting(queue: QueueInfo) -> int:
    return queue.queued + queue.scheduled + queue.retrying


def _parts(queue: QueueInfo) -> str:
    parts = {"queued": queue.queued, "scheduled": queue.scheduled, "retrying": queue.retrying}
    return ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
