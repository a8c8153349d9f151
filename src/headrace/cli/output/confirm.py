"""Asking before something is destroyed."""

from __future__ import annotations

import click

from headrace.core.errors import ConfigurationError

from .render import echo, is_terminal, printable

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(what: str, *, yes: bool) -> None:
    """Go on only when a person agrees, or `--yes` has said so beforehand."""
    if yes:
        return
    if not is_terminal("stdin"):
        raise ConfigurationError(f"{what}? Nobody is there to be asked: add --yes")
    if not click.confirm(printable(f"{what}?"), err=True):
        echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
