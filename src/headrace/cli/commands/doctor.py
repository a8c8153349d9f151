"""`headrace doctor`: what is wrong with a store, or will be, and what to do about it."""

from __future__ import annotations

import logging

import click
import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from headrace.app import App
from headrace.cli.output.render import json_option, printable, show, show_json
from headrace.cli.output.table import wrapped_grid
from headrace.cli.target.store import on_store, with_target
from headrace.core.errors import HeadraceError
from headrace.core.records.findings import Finding, Level, fail
from headrace.core.values.whole_numbers import counted

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


@click.command()
@json_option
@on_store
def doctor(app: App, as_json: bool) -> None:
    """Examine a store, its queues and its workers.

    A line for each check: ok, warn or fail, the fact, and what to do. It changes nothing. The exit code is 1
    when a check fails, and 0 when there are only warnings or none.

    \b
    Examples:
      headrace doctor shop:app
      headrace doctor --url redis://localhost:6379/0 --json
    """
    findings = _findings(app)
    if as_json:
        show_json({"store": app.description, "findings": [msgspec.to_builtins(each) for each in findings]})
    else:
        _show(app.description, findings)
    if any(finding.level is Level.FAIL for finding in findings):
        raise SystemExit(1)


def _findings(app: App) -> list[Finding]:
    """A store that cannot be opened is a finding, not an error of the command."""
    # Opening a store logs the quick part of the examination, which is shown here anyway.
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    try:
        return app.sync.admin.doctor()
    except HeadraceError as error:
        return [fail("store", str(error), "")]


def _show(store: str, findings: list[Finding]) -> None:
    show(Group(Text(printable(store), style="bold"), "", _table(findings), "", _summary(findings)))


def _table(findings: list[Finding]) -> Table:
    """Long texts wrap within their column, so that levels and names stay in line."""
    table = wrapped_grid(3)
    table.columns[0].min_width = max(map(len, Level))
    for finding in findings:
        level = Text(finding.level, style=_STYLES[finding.level])
        table.add_row(level, printable(finding.name), printable(finding.text))
        if finding.remedy:
            table.add_row("", "", Text(f"→ {with_target(printable(finding.remedy))}", style="dim"))
    return table


def _summary(findings: list[Finding]) -> Text:
    failed, warned = (sum(each.level is level for each in findings) for level in (Level.FAIL, Level.WARN))
    if not failed and not warned:
        return Text("all is well", style="green")
    parts = ([f"{failed} failed"] if failed else []) + ([counted(warned, "warning")] if warned else [])
    return Text(", ".join(parts), style=_STYLES[Level.FAIL if failed else Level.WARN])
