"""`headrace enqueue`: one job, or many of one task, from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, cast

import click
import msgspec

from headrace.app import App
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import compact_json, echo, error_text, json_option, show_json
from headrace.cli.target.arguments import FORMS, call_from_json
from headrace.cli.target.completion import complete_app, complete_queue, complete_task
from headrace.cli.target.option_types import span_option
from headrace.cli.target.store import located, opened
from headrace.cli.target.suggestions import unknown
from headrace.core.errors import (
    ConfigurationError,
    HeadraceError,
    PayloadError,
    QueueFull,
    ResultNotKept,
    ResultTimeout,
)
from headrace.core.messages.message import PRIORITIES
from headrace.core.records.record import JobStatus
from headrace.core.values.times import span
from headrace.core.values.whole_numbers import counted
from headrace.jobs.handles.job import Job
from headrace.jobs.options import CallOverrides
from headrace.jobs.task import Call, Task

#: Jobs stored at once; the bar moves as often.
STEP = 500

#: Seconds after which `--wait` looks whether there is a worker at all.
NOTICE = 1.0


@click.command()
@click.argument("target", metavar="MODULE:APP", shell_complete=complete_app)
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", metavar="[JSON]", nargs=-1)
@click.option("--delay", type=span_option, metavar="SPAN", help="Run it after 90 (seconds), 15m, 2h or 3d.")
@click.option(
    "--queue", metavar="QUEUE", help="Another queue than the task's.", shell_complete=complete_queue
)
@click.option("--priority", type=click.Choice(list(PRIORITIES)), help="Another priority than the task's.")
@click.option("--unique-key", metavar="KEY", help="Do nothing when a job with this key waits or runs.")
@click.option("--job-id", metavar="ID", help="An id of your own; default: a new one.")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="A job for each line of FILE, which holds JSON; - is standard input.",
)
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@click.option(
    "--timeout",
    "longest",
    envvar="HEADRACE_TIMEOUT",
    type=span_option,
    metavar="SPAN",
    help="With --wait: no longer than this.",
)
@json_option
def enqueue(
    target: str,
    task: str,
    arguments: tuple[str, ...],
    source: str | None,
    wait: bool,
    longest: float | None,
    as_json: bool,
    **options: Unpack[CallOverrides],
) -> None:
    """Store a job of TASK, and print its id.

    JSON holds the arguments: a list for positional ones, an object for named ones. They are converted to the
    annotated types, and nothing is sent when they do not fit. TASK may be the last part of a name. With
    --from, a file holds such JSON for many jobs, a line each.

    \b
    Examples:
      headrace enqueue shop:app shop.add '[2, 3]'
      headrace enqueue shop:app send_mail '{"to": "ada@example.org"}' --delay 10m
      headrace enqueue shop:app add '[2, 3]' --wait --timeout 30
      headrace enqueue shop:app add --from numbers.jsonl --queue slow
    """
    given = cast(CallOverrides, {name: value for name, value in options.items() if value is not None})
    text = _only(arguments)
    if source is not None:
        _check_many(text is not None, wait, given)
        _enqueue_many(target, task, source, given, as_json=as_json)
        return
    with opened(located(target)) as app:
        call = call_from_json(find_task(app, task, target), text)
        job = _stored(app, call.with_(**given))
        if not as_json:
            _tell(job)
        end = _waited(app, job, longest, target) if wait else JobEnd()
        if as_json:
            stored = {"id": job.id, "task": job.task, "queue": job.queue, "duplicate": job.duplicate}
            show_json(stored | end)
        elif wait:
            _tell_end(end)
    raise click.exceptions.Exit(1 if "error" in end else 0)


class JobEnd(TypedDict, total=False):
    """How a job ended, as fields of a document."""

    status: JobStatus
    result: object
    note: str
    error: str
    reason: str
    traceback: str


def _only(arguments: tuple[str, ...]) -> str | None:
    """The JSON text. Users of other tools write the arguments of the task one by one."""
    if len(arguments) > 1:
        raise click.UsageError(f"All arguments of the task are one JSON text: {FORMS}.")
    return arguments[0] if arguments else None


def _check_many(arguments: bool, wait: bool, given: CallOverrides) -> None:
    """What makes sense for one job only."""
    single = {"JSON": arguments, "--wait": wait}
    single |= {"--job-id": "job_id" in given, "--unique-key": "unique_key" in given}
    if wrong := [name for name, is_given in single.items() if is_given]:
        raise click.UsageError(f"{' and '.join(wrong)} cannot be given with --from.")


def _enqueue_many(target: str, task: str, source: str, given: CallOverrides, *, as_json: bool) -> None:
    with opened(located(target)) as app:
        found = find_task(app, task, target)
        stored = store_lines(app, found, read_lines(source), given)
    if as_json:
        show_json({"task": found.name, "ids": stored.ids, "duplicates": stored.duplicates})
    else:
        echo(str(stored))


def find_task(app: App, name: str, target: str) -> Task[Any, Any]:
    """The task of this name, or the only one whose name ends with it."""
    ending = [known for known in app.tasks if known.endswith(f".{name}")]
    found = app.tasks.get(name) or (app.tasks[ending[0]] if len(ending) == 1 else None)
    if found is not None:
        return found
    raise ConfigurationError(unknown("task", name, app.tasks, owner=target))


def _stored(app: App, call: Call[Any]) -> Job[Any]:
    try:
        return app.sync.enqueue(call)
    except PayloadError as error:
        raise ConfigurationError(str(error)) from error


def _tell(job: Job[Any]) -> None:
    echo(job.id)
    if job.duplicate:
        echo("This job was already there; nothing was added.", err=True)


def _waited(app: App, job: Job[Any], timeout: float | None, target: str) -> JobEnd:
    goes_on = f"the job goes on; look at it with: headrace jobs show {target} {job.id}"
    try:
        status = _end(app, job, timeout)
    except KeyboardInterrupt:
        raise click.ClickException(f"stopped waiting; {goes_on}") from None
    except ResultTimeout as error:
        why = f"no worker serves queue {job.queue!r}; start one with: headrace worker {target}"
        late = f"job {job.id} has not ended after {span(timeout or 0.0)}"
        return {"status": app.sync.status(job), "error": f"{late}: {why if error.no_worker else goes_on}"}
    if status is JobStatus.UNKNOWN:
        # It was there a moment ago: it has succeeded, and nothing of it is kept.
        return {"status": JobStatus.SUCCEEDED, "result": None, "note": "no result is kept"}
    if status is not JobStatus.SUCCEEDED:
        info = app.sync.info(job)
        return {
            "status": status,
            "error": error_text(info) or f"job {job.id} is {status}",
            "reason": info.reason,
            "traceback": info.traceback,
        }
    try:
        return {"status": status, "result": app.sync.result(job)}
    except ResultNotKept:
        return {"status": status, "result": None, "note": "no result is kept"}


def _end(app: App, job: Job[Any], timeout: float | None) -> JobStatus:
    """Wait for the end. When no worker could run the job, say so at once and not only after the timeout."""
    if timeout is not None and timeout <= NOTICE:
        return app.sync.wait(job, timeout)
    try:
        return app.sync.wait(job, NOTICE)
    except ResultTimeout as error:
        if error.no_worker:
            echo(f"note: no worker serves queue {job.queue}; the job waits until one starts", err=True)
    return app.sync.wait(job, None if timeout is None else timeout - NOTICE)


def _tell_end(end: JobEnd) -> None:
    if "error" not in end:
        echo(compact_json(end["result"]))
        if "note" in end:
            echo(f"It has succeeded; {end['note']}.", err=True)
        return
    if traceback := end.get("traceback"):
        echo(traceback.rstrip(), err=True)
    dead = f"dead ({reason}): " if (reason := end.get("reason")) else ""
    echo(f"Error: {dead}{end['error']}", err=True)


class BulkResult(msgspec.Struct, frozen=True):
    """The ids of the jobs, in the order of the lines; `duplicates` of them were stored before."""

    ids: list[str]
    duplicates: int

    def __str__(self) -> str:
        fresh = f"{counted(len(self.ids) - self.duplicates, 'job')} stored"
        return f"{fresh}; {self.duplicates:,} were already there" if self.duplicates else fresh


def read_lines(path: str) -> list[str]:
    """The lines of a file, `-` for standard input."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            text: str = file.read()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    # Not splitlines: JSON may hold characters that it takes for the end of a line.
    return text.split("\n")


def store_lines(app: App, task: Task[Any, Any], lines: Sequence[str], options: CallOverrides) -> BulkResult:
    """Check all lines first. Then store a job for each line that is not empty."""
    _check_lines(task, lines)
    lines = [line for line in lines if line.strip()]
    stored: list[Job[Any]] = []
    try:
        with ProgressBar("enqueueing", len(lines)) as steps:
            for start in range(0, len(lines), STEP):
                calls = [call_from_json(task, line).with_(**options) for line in lines[start : start + STEP]]
                stored += _sent(app, calls, start)
                steps.reached(len(stored))
    except KeyboardInterrupt:
        raise click.ClickException(
            f"stopped; of {counted(len(lines), 'job')} at least {len(stored):,} are stored"
        ) from None
    return BulkResult([job.id for job in stored], sum(job.duplicate for job in stored))


def _check_lines(task: Task[Any, Any], lines: Sequence[str]) -> None:
    # Lines are decoded here and again later: a million calls take more memory than a million lines.
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                call_from_json(task, line)
        except ConfigurationError as error:
            raise ConfigurationError(f"line {number:,}: {error}; nothing was sent") from error


def _sent(app: App, calls: list[Call[Any]], before: int) -> list[Job[Any]]:
    try:
        return app.sync.enqueue_many(calls)
    except QueueFull as error:
        raise click.ClickException(_with_count(error, before + len(error.accepted))) from error
    except PayloadError as error:
        raise ConfigurationError(_with_count(error, before)) from error
    except HeadraceError as error:
        raise click.ClickException(_with_count(error, before)) from error


def _with_count(error: HeadraceError, before: int) -> str:
    """The error and how many jobs are stored. Lines are stored in order, so the user knows where to go on."""
    return f"{error}; stored before that: {counted(before, 'job')}"
