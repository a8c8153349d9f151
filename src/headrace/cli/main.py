"""`headrace`: the group that the commands hang on, and what becomes of their errors."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version

import click

from headrace.core.errors import ConfigurationError, HeadraceError

from .worker import worker


class Commands(click.Group):
    """Turns headrace's errors into one clear line and an exit code: 2 wrong usage, 1 failed."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise WrongUsage(str(error)) from error
        except HeadraceError as error:
            raise click.ClickException(str(error)) from error


class WrongUsage(click.ClickException):
    exit_code = 2


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Background jobs for Python, on one engine."""


@cli.command()
def version() -> None:
    """Print the versions of headrace, Python and the SQLite that is used."""
    import apsw

    python = ".".join(map(str, sys.version_info[:3]))
    click.echo(
        f"headrace {installed_version('headrace')}, Python {python}, SQLite {apsw.sqlite_lib_version()}"
    )


cli.add_command(worker)


def main() -> None:
    """The entry point of the `headrace` script."""
    cli(prog_name="headrace")
