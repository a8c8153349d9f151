"""`headrace pause`, `resume`, `purge` and `split`: what can be done to a whole queue."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypedDict, Unpack

import click

from headrace.admin import Counted, QueueInfo
from headrace.admin.steering.cleaning import CLEANABLE
from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import echo
from headrace.cli.target.completion import complete_task
from headrace.cli.target.option_types import span_option
from headrace.cli.target.place import check_task, remark
from headrace.cli.target.store import on_store_with
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import ConfigurationError
from headrace.core.rules.layout import checked_partitions
from headrace.core.values.whole_numbers import counted

from .jobs import all_pages

#: Seconds between two readings of the progress of a purge.
LOOK = 0.2


_task_option = click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME",
    help="A task in place of a queue, wherever its jobs are.",
    shell_complete=complete_task,
)


@click.command()
@_task_option
@on_store_with("[QUEUE...]")
def pause(app: App, queues: tuple[str, ...], tasks: tuple[str, ...]) -> None:
    """Start no more jobs of a queue or of a task.

    This holds for every worker, for a task within 3 seconds. Running jobs go on, and jobs can still be
    enqueued.

    \b
    Examples:
      headrace pause shop:app mails
      headrace pause --url sqlite:///jobs.db mails reports
      headrace pause shop:app --task shop.tasks.send
    """
    _require_name(queues, tasks)
    for queue in queues:
        _remark_unknown(app, queue)
        app.sync.admin.pause(queue)
        echo(f"{queue} is paused; headrace resume resumes it")
    for task in tasks:
        check_task(app, task)
        app.sync.admin.pause(task=task)
        echo(f"task {task} is paused; headrace resume --task {task} resumes it")


@click.command()
@_task_option
@on_store_with("[QUEUE...]")
def resume(app: App, queues: tuple[str, ...], tasks: tuple[str, ...]) -> None:
    """Resume a paused queue or task.

    \b
    Examples:
      headrace resume shop:app mails
      headrace resume shop:app --task shop.tasks.send
    """
    _require_name(queues, tasks)
    for task in tasks:
        app.sync.admin.resume(task=task)
        echo(f"task {task} is resumed")
    for queue in queues:
        _remark_unknown(app, queue)
        app.sync.admin.resume(queue)
        echo(f"{queue} is resumed")


def _require_name(queues: tuple[str, ...], tasks: tuple[str, ...]) -> None:
    if not queues and not tasks:
        raise click.UsageError("Missing argument 'QUEUE...', or --task.")


@click.command()
@click.option(
    "--state",
    type=click.Choice([state.value for state in CLEANABLE]),
    help="Remove the jobs in this state instead: waiting ones are cancelled, the others deleted.",
)
@click.option(
    "--older-than",
    type=span_option,
    metavar="SPAN",
    help="With --state: enqueued, or ended, before: 90 (seconds), 15m, 2h or 3d ago.",
)
@click.option("--remove", is_flag=True, help="Remove the queue itself, if only ended jobs are left in it.")
@click.option("--force", is_flag=True, help="With --remove: with everything in it, also running jobs.")
@click.option("--dry-run", is_flag=True, help="Only say what would be cancelled.")
@yes_option
@on_store_with("QUEUE...")
def purge(app: App, queues: tuple[str, ...], dry_run: bool, yes: bool, **chosen: Unpack[Chosen]) -> None:
    """Cancel all waiting jobs of a queue, after a question.

    These are queued, scheduled and retrying jobs. Running and dead jobs stay. With --state, the jobs in that
    state are removed instead. With --remove, the queue is removed: stop its workers first.

    \b
    Examples:
      headrace purge shop:app mails --dry-run
      headrace purge shop:app mails --yes
      headrace purge shop:app mails --state dead --older-than 7d
      headrace purge shop:app mails --remove
    """
    if chosen["older_than"] is not None and chosen["state"] is None:
        raise click.UsageError("--older-than goes with --state.")
    if chosen["force"] and not chosen["remove"]:
        raise click.UsageError("--force goes with --remove.")
    for queue in queues:
        known = _known(app, queue)
        if chosen["remove"]:
            _remove(app, known, force=chosen["force"], dry_run=dry_run, yes=yes)
        elif chosen["state"] is not None:
            _clean(app, queue, chosen["state"], chosen["older_than"] or 0, dry_run=dry_run, yes=yes)
        else:
            _purge(app, known, dry_run=dry_run, yes=yes)


class Chosen(TypedDict):
    """The options of `purge` that say what is removed."""

    state: str | None
    older_than: float | None
    remove: bool
    force: bool


def _clean(app: App, queue: str, state: str, age: float, *, dry_run: bool, yes: bool) -> None:
    before = datetime.now(UTC) - timedelta(seconds=age)
    jobs = all_pages(partial(app.sync.admin.jobs, queue, state=state))
    total = sum((job.ended_at or job.enqueued_at or before) <= before for job in jobs)
    what = f"{counted(total, f'{state} job')} of {queue}"
    if dry_run or not total:
        echo(f"would remove {what}")
        return
    confirm(f"Remove {what}", yes=yes)
    removed = app.sync.admin.clean(queue, state=state, older_than=age)
    least = "at least " if removed.uncertain else ""
    echo(f"{least}{counted(removed, f'{state} job')} of {queue} removed")


def _remove(app: App, queue: QueueInfo, *, force: bool, dry_run: bool, yes: bool) -> None:
    parts = _parts(queue, all_states=True)
    held = f" with everything in it ({parts})" if force and parts else ""
    what = f"the queue {queue.name}{held}"
    if dry_run:
        echo(f"would remove {what}")
        return
    confirm(f"Remove {what}", yes=yes)
    app.sync.admin.remove_queue(queue.name, force)
    echo(f"{queue.name} is removed")


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


def _parts(queue: QueueInfo, *, all_states: bool = False) -> str:
    parts = {"queued": queue.queued, "scheduled": queue.scheduled, "retrying": queue.retrying}
    if all_states:
        parts |= {"running": queue.running, "dead": queue.dead}
    return ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
