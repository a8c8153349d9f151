"""`headrace demo`: a small shop, killed half-way, in about ten seconds."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import click

from headrace.cli.output.render import echo
from headrace.cli.worker.event_loop import loop_factory


@click.command()
def demo() -> None:
    """See it work: a shop on SQLite, two workers, one of them killed half-way. Asks nothing.

    It takes about ten seconds and fails if a promise is broken.

    \b
    Examples:
      headrace demo
    """
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    os.environ["HEADRACE_DEMO"] = str(folder)
    # The shop opens its store where the line above says, so it is imported only now.
    from . import play, verdict
    from .crew import Crew
    from .stage import Stage

    with Crew(folder) as crew, asyncio.Runner(loop_factory=loop_factory()) as runner:
        seen = runner.run(play.play(crew, Stage()))
    if not verdict.show(seen, folder):
        echo(f"A promise was broken. What the workers said is in {folder}", err=True)
        sys.exit(1)
