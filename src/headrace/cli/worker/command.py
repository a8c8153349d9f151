"""`headrace worker`: run jobs and handle events until a signal comes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Collection, Coroutine

import click

from headrace import __version__
from headrace.app import App
from headrace.cli.output.render import counted, echo
from headrace.cli.target.locate import locate
from headrace.cli.target.option_types import setting
from headrace.core.errors import ConfigurationError
from headrace.core.values.times import span
from headrace.engine.process_signals import StopSignals
from headrace.engine.worker import Worker
from headrace.observability.logs import log_every_job

from .event_loop import loop_factory
from .logging import start_logging
from .metrics_port import metrics_port
from .process_monitor import ProcessMonitor
from .supervisor import SUPERVISOR, Supervisor

#: Seconds after the second signal.
LAST_MOMENTS = 1.7


@click.command()
@click.argument("target", metavar="MODULE:APP")
@setting("queues", metavar="A,B", help="Queues to serve; default: all the app's.")
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
@setting("burst", is_flag=True, help="Stop when nothing is left to do.")
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
    help="Answer /metrics, /healthz and /readyz there; of several processes each on the next port. 0: any.",
)
@setting(
    "metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="The address of that port; 0.0.0.0 for probes from elsewhere.",
)
@setting(
    "metrics-names",
    metavar="NAMES",
    help="Names with dots by which that port is asked, with commas between; addresses need not be named.",
)
@setting(
    "log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    metavar="LEVEL",
    help="The least level to log: debug, info, warning or error. debug logs every job.",
)
@setting(
    "log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    metavar="FORMAT",
    help="Log lines as text or json.",
)
def worker(
    target: str,
    queues: str | None,
    topics: str | None,
    concurrency: int,
    processes: int,
    burst: bool,
    grace: float,
    lease: float,
    metrics_port: int | None,
    metrics_host: str,
    metrics_names: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the jobs of an app, and handle events.

    MODULE:APP says where it is, such as shop:app. The worker runs until SIGTERM or Ctrl-C. The first signal
    lets running jobs end within --grace seconds and hands the rest back; the second stops at once.

    \b
    Examples:
      headrace worker shop:app
      headrace worker shop:app --queues mails,reports --concurrency 20
      headrace worker shop:app --topics orders --queues ''
      headrace worker shop:app --processes 4
      headrace worker shop:app --burst
      headrace worker shop:app --metrics-port 9464 --log-format json
    """
    start_logging(log_level, log_format)
    if processes > 1:
        sys.exit(Supervisor(target, processes, burst=burst, arguments=_arguments()).run())
    app = locate(target)
    if log_level == "debug":
        log_every_job(lambda signal, listener: app.on(signal)(listener))
    worker = app.worker(
        queues=_names(queues), topics=_names(topics), concurrency=concurrency, lease=lease, grace=grace
    )
    if log_format == "text" and SUPERVISOR not in os.environ:
        _banner(app, target, worker)
    _run(_serve(app, worker, burst, (metrics_host, metrics_port, _names(metrics_names) or ())))


def _names(text: str | None) -> list[str] | None:
    """`a,b` as a list. An empty text means none, no text means all."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise ConfigurationError(f"{text!r} names nothing: write names with commas between them, or ''")
    return names


async def _serve(
    app: App, worker: Worker, burst: bool, metrics: tuple[str, int | None, Collection[str]]
) -> None:
    try:
        async with metrics_port(app, worker, *metrics), ProcessMonitor(worker):
            with StopSignals(first=lambda: None, second=_exit_soon):
                await worker.run(burst=burst)
    finally:
        await app.close()


def _exit_soon() -> None:
    """The second signal: the process ends, also when the store or a handler hangs."""
    timer = threading.Timer(LAST_MOMENTS, _exit)
    timer.daemon = True
    timer.start()


def _exit() -> None:
    logging.shutdown()
    os._exit(0)


def _run(main: Coroutine[object, None, None]) -> None:
    runner = asyncio.Runner(loop_factory=loop_factory())
    runner.run(main)
    left = asyncio.all_tasks(runner.get_loop())
    for task in left:
        task.cancel()
    if left:
        runner.run(_wait(left))
    if asyncio.all_tasks(runner.get_loop()):
        # A handler that ignores its cancellation was handed back and left behind. Closing the loop would wait
        # for it for ever.
        _exit()
    runner.close()


async def _wait(tasks: set[asyncio.Task[object]]) -> None:
    """Give tasks that a handler left running a second to end."""
    await asyncio.wait(tasks, timeout=1.0)


def _banner(app: App, target: str, worker: Worker) -> None:
    options = worker.options
    loop = "asyncio" if loop_factory() is None else "uvloop"
    # Jobs may be sent there all the same, by `with_(queue=...)`; more often the name is mistyped.
    declared = {"default", *(task.options.queue for task in app.tasks.values())}
    strange = [queue for queue in options.queues if queue not in declared]
    lines = (
        ("app", f"{target}, {counted(len(app.tasks), 'task')}"),
        ("store", app.description),
        ("queues", ", ".join(options.queues) or "none"),
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


def _arguments() -> list[str]:
    """The arguments of this command for its child processes, with `--processes 1`.

    Without that option, HEADRACE_PROCESSES would make supervisors of the children too.
    """
    context = click.get_current_context()
    arguments = ["--processes", "1"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if not isinstance(parameter, click.Option) or parameter.name == "processes":
            continue
        if value is None or value is False:  # but 0 is a value
            continue
        arguments += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return arguments
