"""`headrace relay`: hand on what waits in the outboxes of an app, without running jobs."""

from __future__ import annotations

import click

from headrace.cli.target.completion import complete_app
from headrace.cli.target.locate import locate
from headrace.cli.target.option_types import setting
from headrace.cli.worker.logging import log_options, start_logging
from headrace.cli.worker.process import run_worker
from headrace.core.errors import ConfigurationError


@click.command()
@click.argument("target", metavar="MODULE:APP", envvar="HEADRACE_APP", shell_complete=complete_app)
@setting("burst", is_flag=True, help="Stop when nothing is left to relay.")
@log_options()
def relay(target: str, burst: bool, log_level: str, log_format: str) -> None:
    """Relay the outboxes of an app.

    It enqueues the jobs and publishes the events that were written in your own transactions, and starts the
    jobs of events (topic.feed). Every worker of the app does this too. Several relays may run at once.

    \b
    Examples:
      headrace relay shop:app
      headrace relay shop:app --burst
    """
    start_logging(log_level, log_format)
    app = locate(target)
    if not app.has_outboxes:
        raise ConfigurationError(
            f"{target} has nothing to relay: give it App(outbox=URL), or let a topic feed a task"
        )
    run_worker(app, app.relay(), burst=burst)
