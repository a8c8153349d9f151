"""Asking before something is destroyed."""

from __future__ import annotations

import click

from headrace.core.errors import ConfigurationError

from .render import is_terminal

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(what: str, *, yes: bool) -> None:
    """Go on only when a person agrees, or `--yes` has said so beforehand."""
    if yes:
        return
    if not is_terminal("stdin"):
        raise ConfigurationError(f"{what}? Nobody is there to be asked: add --yes")
    if not click.confirm(f"{what}?", err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
