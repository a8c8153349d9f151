"""`headrace jobs`: list jobs and show one. `headrace cancel` and `retry`: change jobs by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

import click

from headrace.admin.looking.waiting import short_waiting_text
from headrace.admin.place import Place, place_of
from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.job_page import job_document, read_page, show_page
from headrace.cli.output.render import (
    echo,
    error_text,
    json_list_option,
    json_option,
    progress_text,
    short,
    show,
    show_json,
    status_text,
)
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.completion import complete_task, is_place
from headrace.cli.target.listing_group import ListingGroup
from headrace.cli.target.option_types import setting, span_option
from headrace.cli.target.place import check_task, known_groups, known_queues, place_options
from headrace.cli.target.store import on_store, on_store_with
from headrace.core.records.job_info import JobInfo, has_argument, newest_first
from headrace.core.records.record import JobStatus, Page
from headrace.core.values.times import age_text, ago, seconds_since, span
from headrace.sync import SyncAdmin

#: The order of a listing: running jobs, then waiting ones, then those that ended.
ORDER = (
    JobStatus.RUNNING,
    JobStatus.QUEUED,
    JobStatus.RETRYING,
    JobStatus.SCHEDULED,
    JobStatus.DEAD,
    JobStatus.CANCELLED,
    JobStatus.EXPIRED,
    JobStatus.SUCCEEDED,
)

#: Jobs or dead letters asked of the store at once.
PAGE = 200

T = TypeVar("T")

limit_option = setting("limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many.")


@click.group(cls=ListingGroup)
def jobs() -> None:
    """List jobs, or show one.

    \b
    Examples:
      headrace jobs shop:app
      headrace jobs shop:app --state retrying --task shop.send_mail
      headrace jobs shop:app --state queued --older-than 10m --json
      headrace jobs show shop:app 01m7f9vj79fnjrwh4myfs88p3r
    """


@jobs.command("list")
@place_options
@click.option(
    "--state",
    "states",
    type=click.Choice(list(map(str, ORDER))),
    metavar="STATE",
    multiple=True,
    help=f"Only {', '.join(ORDER)}; may be repeated.",
)
@click.option("--task", metavar="TASK", help="Only this task.", shell_complete=complete_task)
@click.option("--key", metavar="KEY", help="Only the job that holds this unique key, else those that had it.")
@click.option(
    "--argument", metavar="VALUE", help="Only jobs with this value in their arguments, such as 123."
)
@click.option(
    "--older-than",
    type=span_option,
    metavar="SPAN",
    help="Enqueued (or ended) before: 90 (seconds), 15m, 2h or 3d ago.",
)
@click.option("--newer-than", type=span_option, metavar="SPAN", help="Enqueued (or ended) since.")
@limit_option
@json_list_option
@on_store
def list_jobs(
    app: App,
    place: Place,
    states: tuple[str, ...],
    task: str | None,
    key: str | None,
    argument: str | None,
    older_than: float | None,
    newer_than: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs: running ones first, then the newest.

    Jobs that ended are listed as long as the store keeps their result, and from the history of their queue
    after that. With --topic, the events that its groups hold are listed instead.

    \b
    Examples:
      headrace jobs list shop:app --state running
      headrace jobs list shop:app --state succeeded --task shop.send_mail
      headrace jobs list shop:app --task shop.send_mail --argument 123
      headrace jobs list shop:app --queue reports --key customer-7
      headrace jobs list shop:app --topic orders --group billing --state retrying
      headrace jobs list --url sqlite:///jobs.db --newer-than 1h --limit 500 --json
    """
    admin = app.sync.admin
    wanted = [status for status in ORDER if not states or status in states]
    if place.topic:
        places = known_groups(admin, place)  # --task is the kind of the events here
    else:
        check_task(app, task)
        places = known_queues(admin, place.queue)
    found = (
        _matching(admin, places, wanted, task) if key is None else _holding(admin, places, key, wanted, task)
    )
    if argument is not None:
        found = (info for info in found if has_argument(info, argument))
    fitting = filter(_of_age(older_than, newer_than), found)
    chosen = [*islice(fitting, limit)]
    if not states:
        chosen.sort(key=newest_first)
    if as_json:
        show_json([job_document(info) for info in chosen])
    elif chosen:
        show(_table(chosen))
    else:
        echo("no events" if place.topic else "no jobs")
    tell_if_cut(next(fitting, None) is not None, limit)


@jobs.command("release-key")
@yes_option
@on_store_with("QUEUE KEY")
def release_key(app: App, names: tuple[str, str], yes: bool) -> None:
    """Free a unique key whose job is stuck, after a question.

    The job that holds the key stays as it is. The next job with this key is no duplicate any more.

    \b
    Examples:
      headrace jobs release-key shop:app reports customer-7
    """
    queue, key = names
    holder = app.sync.admin.holder(key, queue=queue)
    if holder is not None:
        confirm(f"Free the key {key} of {queue}, which job {holder.id} ({holder.status}) holds", yes=yes)
    if not app.sync.admin.release_key(queue, key):
        raise click.ClickException(f"no job of {queue} holds the key {key}")
    echo(f"the key {key} of {queue} is free")


@jobs.command("show")
@place_options
@json_option
@on_store_with("ID")
def show_job(app: App, ids: tuple[str], place: Place, as_json: bool) -> None:
    """Show a job: its arguments, its runs, its result or error.

    \b
    Examples:
      headrace jobs show shop:app 01m7f9vj79fnjrwh4myfs88p3r
      headrace jobs show --url sqlite:///jobs.db 01m7f9vj79fnjrwh4myfs88p3r --json
    """
    show_page(app, read_page(app, find_job(app, ids[0], place)), as_json=as_json)


@click.command()
@place_options
@on_store_with("ID...")
def cancel(app: App, ids: tuple[str, ...], place: Place) -> None:
    """Cancel jobs by their ids.

    Waiting jobs are removed. A running job is stopped by its worker.

    \b
    Examples:
      headrace cancel shop:app 01m7f9vj79fnjrwh4myfs88p3r
      headrace jobs shop:app --task shop.add --json | jq -r '.[].id' |
        xargs headrace cancel shop:app
    """
    _each(ids, lambda id: _cancelled(app, id, place))


@click.command()
@place_options
@on_store_with("ID...")
def retry(app: App, ids: tuple[str, ...], place: Place) -> None:
    """Run scheduled, retrying or dead jobs now.

    \b
    Examples:
      headrace retry shop:app 01m7f9vj79fnjrwh4myfs88p3r
    """
    _each(ids, lambda id: _retried(app, id, place))


def find_job(app: App, id: str, place: Place) -> JobInfo:
    """What the store knows of a job, or of an event that a group holds. An unknown id is an error."""
    info = app.sync.admin.job(id, **place.options)
    if info is None:
        where = f"in {place.words}" if place != Place() else f"in {app.description}"
        noun = "event" if place.topic else "job"
        likely = (
            f"if {id} is your app, add the id after it"
            if is_place(id)
            else f"the id is wrong, or the {noun} has ended and is no longer kept"
        )
        raise click.ClickException(f"there is no {noun} {id} {where}: {likely}")
    return info


def tell_if_cut(cut: bool, limit: int) -> None:
    if cut:
        echo(f"… there are more than these {limit:,}; --limit shows more", err=True)


def _matching(
    admin: SyncAdmin, places: list[Place], states: list[JobStatus], task: str | None
) -> Iterator[JobInfo]:
    """Each job once, also when its state changes meanwhile."""
    seen: set[tuple[Place, str]] = set()
    for state in states:
        for place in places:
            for info in all_pages(partial(admin.jobs, **place.options, state=state, task=task)):
                if (place, info.id) not in seen:
                    seen.add((place, info.id))
                    yield info


def _holding(
    admin: SyncAdmin, places: list[Place], key: str, states: list[JobStatus], task: str | None
) -> Iterator[JobInfo]:
    """The job that holds the key, which a store finds at once. When no job holds it: all jobs that had it, by
    reading all jobs."""
    holders = [admin.holder(key, queue=place.queue) for place in places if place.queue]
    held = [info for info in holders if info and info.status in states and task in (None, info.task)]
    if held:
        return iter(held)
    return (info for info in _matching(admin, places, states, task) if info.unique_key == key)


def all_pages(ask: Callable[..., Page[T]]) -> Iterator[T]:
    """All that a listing of the admin has, a page after the other."""
    cursor: str | None = None
    while True:
        page = ask(cursor=cursor, limit=PAGE)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _of_age(older_than: float | None, newer_than: float | None) -> Callable[[JobInfo], bool]:
    def fits(info: JobInfo) -> bool:
        if older_than is None and newer_than is None:
            return True
        seconds = seconds_since(info.enqueued_at or info.ended_at)
        if seconds is None:
            return False
        return (older_than is None or seconds >= older_than) and (newer_than is None or seconds < newer_than)

    return fits


def _table(found: list[JobInfo]) -> FittedTable:
    events = any(info.topic for info in found)
    listing = FittedTable(
        Column("id"),
        Column("status"),
        Column("kind" if events else "task", keeps="end"),
        Column("group" if events else "queue", keeps="end", spare=1),
        Column("attempts", right=True, spare=3),
        Column("enqueued", right=True, spare=2),
        Column("note", keeps="start", least=25),
    )
    for info in found:
        listing.add(
            info.id,
            status_text(info.status),
            short(info.task),
            str(place_of(info)),
            str(info.attempts),
            ago(info.enqueued_at),
            _remark(info),
        )
    return listing


def _remark(info: JobInfo) -> str:
    """The most useful fact about a job in its state."""
    error = short(error_text(info))
    match info.status:
        case JobStatus.RUNNING:
            come = f"{progress_text(info.progress)}, " if info.progress else ""
            return f"{come}for {age_text(info.started_at)} on {info.worker}"
        case JobStatus.SCHEDULED:
            return f"due {ago(info.due_at)}"
        case JobStatus.RETRYING:
            return f"due {ago(info.due_at)}: {error}"
        case JobStatus.DEAD:
            return f"{error} ({info.reason})" if error else info.reason
        case JobStatus.QUEUED:
            return short(short_waiting_text(info)) or error
        case _:
            ran = f"ran {span(info.ran)}, " if info.ran is not None else ""
            return f"{ran}{ago(info.ended_at)}{f', {short(info.note)}' if info.note else ''}"


def _each(ids: tuple[str, ...], act: Callable[[str], str]) -> None:
    """Act on each id. After an error the others are still done; the exit code is 1."""
    failed = False
    for id in ids:
        try:
            echo(f"{id} {act(id)}")
        except click.ClickException as error:
            failed = True
            echo(f"Error: {error.format_message()}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _cancelled(app: App, id: str, place: Place) -> str:
    info = find_job(app, id, place)
    # A job is in one queue. An event is cancelled in all groups that the options name.
    meant = place if info.topic else place_of(info)
    if not app.sync.admin.cancel([id], **meant.options):
        raise click.ClickException(f"{_noun(info)} {id} has ended: it is {find_job(app, id, meant).status}")
    running = info.status is JobStatus.RUNNING
    return f"is running on {info.worker}, which stops it" if running else "cancelled"


def _retried(app: App, id: str, place: Place) -> str:
    info = find_job(app, id, place)
    meant = place if info.topic else place_of(info)
    if app.sync.admin.retry_now(id, **meant.options):
        return f"was {info.status}, is queued now"
    noun = _noun(info)
    if info.status is JobStatus.DEAD:
        raise click.ClickException(f"{noun} {id} stays dead: another job holds its unique key by now")
    raise click.ClickException(
        f"{noun} {id} is {info.status}: only scheduled, retrying or dead {noun}s can be retried"
    )


def _noun(info: JobInfo) -> str:
    return "event" if info.topic else "job"
