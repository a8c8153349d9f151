"""A question before something is removed."""

from __future__ import annotations

import click

from headrace.core.errors import ConfigurationError

from .render import echo, is_terminal, printable

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(what: str, *, yes: bool) -> None:
    """Continue only when the user agrees, or has given `--yes`."""
    if yes:
        return
    if not is_terminal("stdin"):
        raise ConfigurationError(f"{what}? There is no terminal for the question: add --yes")
    if not click.confirm(printable(f"{what}?"), err=True):
        echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
