"""All that the store knows of one job: as text for a person, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.admin import Contents, EventInfo
from headrace.admin.looking.contents import named_arguments
from headrace.admin.looking.waiting import waiting_text
from headrace.admin.place import place_of
from headrace.app import App
from headrace.core.errors import PayloadError, ResultError
from headrace.core.messages.job_log import LogLine
from headrace.core.messages.message import TrailEntry
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import JobStatus, moment
from headrace.core.values.times import ago, span
from headrace.core.values.whole_numbers import counted

from .render import (
    clock_time,
    compact_json,
    echo,
    error_text,
    printable,
    progress_text,
    show,
    show_json,
    status_text,
)
from .table import wrapped_grid

_LEVEL_STYLES = {"warning": "yellow", "error": "red", "critical": "red", "debug": "dim"}
_TRAIL_STYLES = {"failed": "yellow", "timed out": "yellow", "crashed": "red"}


class JobPage(msgspec.Struct, frozen=True):
    """A job with its arguments and, once there is one, its result. `problem`: why the result cannot be
    read."""

    info: JobInfo
    contents: Contents | None
    result: object = msgspec.UNSET
    problem: str = ""


def read_page(app: App, info: JobInfo) -> JobPage:
    """Read what listings do not contain: arguments and result."""
    contents = app.sync.admin.contents(info.id, **place_of(info).options)
    if info.status is not JobStatus.SUCCEEDED:
        return JobPage(info, contents)
    try:
        return JobPage(info, contents, app.sync.result(app.job(info.id, queue=info.queue), 5))
    except ResultError:  # no longer kept
        return JobPage(info, contents)
    except PayloadError as error:  # made by a codec or a key that is not known here
        return JobPage(info, contents, problem=f"it cannot be read: {error}")


def job_document(info: JobInfo) -> dict[str, object]:
    """A job as `--json` lists it: without its log and its arguments, which may be longer than all the
    rest."""
    document = msgspec.structs.asdict(info)
    document["trail"] = [_trail_document(entry) for entry in info.trail]
    for name in ("log", "log_dropped", "args", "kwargs"):
        del document[name]
    return document


def show_page(app: App, page: JobPage, *, as_json: bool) -> None:
    """Print it as text or as JSON."""
    if as_json:
        show_json(_page_document(page))
    else:
        show(_view(app, page))
        if page.info.log:
            show(_log(page.info))
        if page.info.traceback:
            echo(f"\n{page.info.traceback.rstrip()}")


def _trail_document(entry: TrailEntry) -> dict[str, object]:
    return {
        "at": moment(entry.at_us),
        "what": entry.what,
        "worker": entry.worker,
        "text": entry.text,
    }


def _line_document(line: LogLine) -> dict[str, object]:
    return {"at": line.at, "attempt": line.attempt, "level": line.level, "text": line.text}


def _page_document(page: JobPage) -> dict[str, object]:
    document = job_document(page.info)
    document["log"] = [_line_document(line) for line in page.info.log]
    document["log_dropped"] = page.info.log_dropped
    contents = page.contents
    readable = contents is not None and not contents.problem
    document["args"] = list(contents.args) if contents and readable else None
    document["kwargs"] = contents.kwargs if contents and readable else None
    document["headers"] = contents.headers if contents else None
    document["problem"] = contents.problem if contents else ""
    if contents is not None and contents.event is not None:
        document["event"] = msgspec.structs.asdict(contents.event)
    if page.result is not msgspec.UNSET:
        document["result"] = page.result
    if page.problem:
        document["result_problem"] = page.problem
    return document


def _view(app: App, page: JobPage) -> RenderableType:
    facts = wrapped_grid(2)
    for name, text in _facts(app, page):
        if text:
            facts.add_row(Text(name, style="bold"), text)
    parts: list[RenderableType] = [facts, "", _timeline(page.info)]
    if page.info.runs:
        parts += ["", _runs(page.info)]
    return Group(*parts)


def _facts(app: App, page: JobPage) -> Iterator[tuple[str, str | Text]]:
    """What is known of a job; facts that it does not have are empty."""
    info = page.info
    yield from _identity(info)
    yield "status", _status(info)
    yield "waits for", printable(waiting_text(info))
    yield "priority", info.priority if info.topic is None else ""
    yield "unique key", printable(info.unique_key)
    yield "attempts", _attempts(info)
    yield "worker", info.worker
    yield "waited", "" if info.waited is None else span(info.waited)
    yield "ran", "" if info.ran is None else span(info.ran)
    yield "progress", f"{progress_text(info.progress)} ({ago(info.progress.at)})" if info.progress else ""
    yield from _contents(app, page)
    yield "result", _result(page)
    yield "note", printable(info.note)
    yield "error", Text(printable(error_text(info)), style="red")


def _identity(info: JobInfo) -> Iterator[tuple[str, str]]:
    yield "id", info.id
    if info.topic is None:
        yield "task", printable(info.task)
        yield "queue", info.queue
    else:
        yield "kind", printable(info.task)
        yield "topic", info.topic
        yield "group", info.group or ""


def _status(info: JobInfo) -> Text:
    text = status_text(info.status)
    return text.append(f" ({info.reason})") if info.reason else text


def _result(page: JobPage) -> str:
    """The result, or why it cannot be read. Empty: there is none."""
    if page.problem:
        return printable(page.problem)
    return "" if page.result is msgspec.UNSET else compact_json(page.result)


def _attempts(info: JobInfo) -> str:
    parts = [
        counted(number, noun)
        for number, noun in (
            (info.failures, "failure"),
            (info.releases, "hand-back"),
        )
        if number
    ]
    if info.crashes:
        parts.append(f"{info.crashes} crash{'' if info.crashes == 1 else 'es'}")
    return f"{info.attempts} ({', '.join(parts)})" if parts else str(info.attempts)


def _contents(app: App, page: JobPage) -> Iterator[tuple[str, str]]:
    contents = page.contents
    if contents is None:
        return
    if contents.event is not None:
        yield from _carried(contents.event)
    elif contents.problem:
        yield "arguments", printable(contents.problem)
    else:
        found = named_arguments(contents, app.tasks.get(page.info.task))
        lines = [f"{printable(str(name))} = {compact_json(value)}" for name, value in found]
        yield "arguments", "\n".join(lines) or "none"
    if contents.headers:
        yield (
            "headers",
            "\n".join(f"{printable(name)}: {printable(text)}" for name, text in contents.headers.items()),
        )


def _carried(event: EventInfo) -> Iterator[tuple[str, str]]:
    for name in ("key", "source", "correlation_id"):
        if text := getattr(event, name):
            yield name.replace("_", " "), printable(text)
    yield "payload", printable(event.problem) or compact_json(event.payload)


def _timeline(info: JobInfo) -> Table:
    table = wrapped_grid(4)
    before: datetime | None = None
    for at, what, text in _happenings(info):
        since = ago(at) if before is None else f"+{span(max(0.0, (at - before).total_seconds()))}"
        table.add_row(clock_time(at), Text(since, style="dim"), what, printable(text))
        before = at
    return table


def _runs(info: JobInfo) -> RenderableType:
    """Every run: its number, when it began, how long it took, on which worker, and its error."""
    table = wrapped_grid(5)
    for run in info.runs:
        took = (run.ended_at - run.started_at).total_seconds() if run.started_at and run.ended_at else None
        table.add_row(
            str(run.number),
            clock_time(run.started_at) if run.started_at else "",
            "" if took is None else span(max(0.0, took)),
            printable(run.worker),
            Text(printable(run.error), style="red"),
        )
    return Group(Text("runs: number, start, duration, worker, error", style="bold"), table)


def _log(info: JobInfo) -> RenderableType:
    """The log lines of its attempts."""
    table = wrapped_grid(4)
    for line in info.log:
        style = _LEVEL_STYLES.get(line.level, "")
        text = Text(printable(line.text), style=style)
        at = clock_time(line.at, "milliseconds")
        table.add_row(at, Text(printable(line.level), style=style), str(line.attempt), text)
    return Group(
        "", Text(f"log{_dropped(info.log_dropped)}: time, level, attempt, text", style="bold"), table
    )


def _dropped(number: int) -> str:
    verb = "was" if number == 1 else "were"
    return f" ({counted(number, 'line')} before these {verb} not kept)" if number else ""


def _happenings(info: JobInfo) -> Iterator[tuple[datetime, Text, str]]:
    """What happened to a job, in order. Times may be equal."""
    if info.enqueued_at is not None:
        yield info.enqueued_at, Text("enqueued" if info.topic is None else "occurred"), ""
    for entry in info.trail:
        at = moment(entry.at_us)
        if at is not None:
            text = f"{entry.text} ({entry.worker})" if entry.text else entry.worker
            yield at, Text(entry.what, style=_TRAIL_STYLES.get(entry.what, "")), text
    if info.started_at is not None and info.status is not JobStatus.DEAD:  # its last run is in the trail
        yield info.started_at, Text("started", style="green"), info.worker
    if info.ended_at is not None:
        yield info.ended_at, status_text(info.status), info.reason
    if info.due_at is not None:
        yield info.due_at, Text("due"), ago(info.due_at)
