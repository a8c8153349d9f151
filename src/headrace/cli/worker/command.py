"""`headrace worker`: run jobs and handle events until a signal comes."""

from __future__ import annotations

import os
import sys

import click

from headrace import __version__
from headrace.app import App
from headrace.cli.output.render import echo, is_terminal
from headrace.cli.target.completion import complete_app, complete_queues
from headrace.cli.target.locate import locate
from headrace.cli.target.option_types import setting
from headrace.core.errors import ConfigurationError
from headrace.core.values.times import span
from headrace.core.values.whole_numbers import counted
from headrace.engine.worker.worker import Worker
from headrace.observability.logs import log_every_job, log_finished_jobs

from .event_loop import loop_factory
from .logging import log_options, start_logging
from .process import run_worker
from .reloader import Reloader
from .supervisor import NUMBER, Supervisor


@click.command()
@click.argument("target", metavar="MODULE:APP", envvar="HEADRACE_APP", shell_complete=complete_app)
@setting(
    "queues",
    metavar="A,B:N",
    help="Queues to serve, and how many slots of a process each may use; default: all the app's.",
    shell_complete=complete_queues,
)
@setting("topics", metavar="A,B", help="Topics to handle events of; default: all that the app subscribes to.")
@setting(
    "concurrency",
    type=click.IntRange(1),
    default=100,
    metavar="N",
    help="Jobs and events that a process runs at a time.",
)
@setting(
    "processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Worker processes; one that dies is replaced.",
)
@setting(
    "children",
    type=click.IntRange(1),
    metavar="N",
    help="Child processes of each for run_in='process'; default: the number of CPUs.",
)
@setting("burst", is_flag=True, help="Stop when nothing is left to do.")
@setting("reload", is_flag=True, help="Start again when a Python file in or below this folder changes.")
@setting(
    "grace",
    type=click.FloatRange(0),
    default=25.0,
    metavar="S",
    help="Seconds that running jobs have to end after the first SIGTERM.",
)
@setting(
    "lease",
    type=click.FloatRange(0, min_open=True),
    default=15.0,
    metavar="S",
    help="Seconds after which the jobs of a worker that died are taken over.",
)
@setting(
    "metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="P",
    help="Answer /metrics, /healthz and /readyz on this port; with --processes, each process uses the next "
    "port. 0: any free one.",
)
@setting(
    "metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="The address to listen on for these; 0.0.0.0 for probes from other machines.",
)
@setting(
    "metrics-names",
    metavar="NAMES",
    help="Names with dots, such as worker.example.org, that may be used to ask this port, with commas "
    "between. IP addresses are always accepted.",
)
@log_options(" info has a line for each job on a terminal.")
def worker(
    target: str,
    queues: str | None,
    topics: str | None,
    concurrency: int,
    processes: int,
    children: int | None,
    burst: bool,
    reload: bool,
    grace: float,
    lease: float,
    metrics_port: int | None,
    metrics_host: str,
    metrics_names: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the jobs of an app, and handle events.

    MODULE:APP says where it is, such as shop:app; without it, HEADRACE_APP does. The worker runs until
    SIGTERM or Ctrl-C. The first signal lets running jobs end within --grace seconds and hands the rest back;
    the second stops at once.

    \b
    Examples:
      headrace worker shop:app
      headrace worker shop:app --queues mails,reports --concurrency 20
      headrace worker shop:app --queues mails:20,reports
      headrace worker shop:app --topics orders --queues ''
      headrace worker shop:app --processes 4
      headrace worker shop:app --burst
      headrace worker shop:app --reload
      headrace worker shop:app --metrics-port 9464 --log-format json
    """
    start_logging(log_level, log_format)
    if reload and burst:
        raise click.UsageError("--reload cannot be given with --burst.")
    if reload:
        sys.exit(Reloader(target, _arguments(without="reload")).run())
    if processes > 1:
        # Without --processes 1, HEADRACE_PROCESSES would make supervisors of the children too.
        arguments = ["--processes", "1", *_arguments(without="processes")]
        sys.exit(Supervisor(target, processes, burst=burst, arguments=arguments).run())
    app = locate(target)
    has_lines = _log_jobs(app, log_level, log_format)
    worker = app.worker(
        queues=_queues(queues, app),
        topics=_names(topics),
        concurrency=concurrency,
        children=children,
        lease=lease,
        grace=grace,
    )
    if log_format == "text" and NUMBER not in os.environ:
        _banner(app, target, worker)
    metrics = metrics_host, metrics_port, _names(metrics_names) or ()
    run_worker(app, worker, burst=burst, counts=not has_lines, metrics=metrics)


def _log_jobs(app: App, level: str, form: str) -> bool:
    """Log each job: all of it with `debug`, its end for a person at a terminal. Elsewhere a line for each job
    would only cost time. Returns whether each job has a line."""
    if level == "debug":
        log_every_job(lambda signal, listener: app.on(signal)(listener))
        return True
    if level == "info" and form == "text" and is_terminal("stderr"):
        log_finished_jobs(lambda signal, listener: app.on(signal)(listener))
        return True
    return False


def _names(text: str | None) -> list[str] | None:
    """`a,b` as a list. An empty text means none, no text means all."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise ConfigurationError(f"{text!r} names nothing: write names with commas between them, or ''")
    return names


def _queues(text: str | None, app: App) -> dict[str, int | None] | None:
    """`mails:20,reports` as names with slots. A name of the app may itself end in a colon and a number."""
    names = _names(text)
    if names is None:
        return None
    queues: dict[str, int | None] = {}
    for name in names:
        head, _, slots = name.rpartition(":")
        if head and slots.isdecimal() and name not in _known_queues(app):
            queues[head] = int(slots)
        else:
            queues[name] = None
    return queues


def _banner(app: App, target: str, worker: Worker) -> None:
    options = worker.options
    loop = "asyncio" if loop_factory() is None else "uvloop"
    # Jobs may be sent there all the same, by `with_(queue=...)`; more often the name is mistyped.
    strange = [queue for queue in options.queues if queue not in _known_queues(app)]
    queues = [f"{name}:{options.slots[name]}" if name in options.slots else name for name in options.queues]
    lines = (
        ("app", f"{target}, {counted(len(app.tasks), 'task')}"),
        ("store", app.description),
        ("queues", ", ".join(queues) or "none"),
        *((("note", f"no task is declared for {', '.join(strange)}"),) if strange else ()),
        *((("events", ", ".join(map(str, worker.subscriptions))),) if worker.subscriptions else ()),
        (
            "slots",
            f"{options.concurrency} on {loop}, lease {span(options.lease)}, grace {span(options.grace)}",
        ),
        ("stop", "Ctrl-C lets running jobs end, twice stops at once"),
    )
    echo(f"\n  headrace {__version__}", err=True)
    for name, text in lines:
        echo(f"    {name:<7} {text}", err=True)
    echo(err=True)


def _known_queues(app: App) -> set[str]:
    return {"default", *app.declared_queues, *(task.options.queue for task in app.tasks.values())}


def _arguments(*, without: str) -> list[str]:
    """The arguments of this command for its child processes, without one option."""
    context = click.get_current_context()
    arguments: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if not isinstance(parameter, click.Option) or parameter.name == without:
            continue
        if value is None or value is False:  # but 0 is a value
            continue
        arguments += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return arguments
