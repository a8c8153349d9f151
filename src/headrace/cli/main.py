"""`headrace`: the group of all commands, and how their errors are shown."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

import headrace.cli.shell_completion  # noqa: F401 # it registers itself
from headrace import __version__
from headrace.cli.commands.dead import dead
from headrace.cli.commands.doctor import doctor
from headrace.cli.commands.enqueue import enqueue
from headrace.cli.commands.jobs import cancel, jobs, retry
from headrace.cli.commands.keys import keys
from headrace.cli.commands.limits import limits
from headrace.cli.commands.move import move
from headrace.cli.commands.publish import publish
from headrace.cli.commands.queues import pause, purge, resume, split
from headrace.cli.commands.relay import relay
from headrace.cli.commands.schedules import schedules
from headrace.cli.commands.schema import schema
from headrace.cli.commands.tail import tail
from headrace.cli.commands.topics import topics
from headrace.cli.commands.workers import workers
from headrace.cli.dashboard.command import dashboard
from headrace.cli.output.render import echo, printable
from headrace.cli.status.command import status
from headrace.cli.worker.command import worker
from headrace.core.errors import ConfigurationError, HeadraceError

from .bench import bench
from .demo import demo


class CommandGroup(click.Group):
    """Turns headrace's errors into one clear line and an exit code: 2 wrong usage, 1 failed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse words that no store can hold: Python has their bytes as lone surrogates."""
        for word in args:
            if word != word.encode(errors="replace").decode():
                raise WrongUsage(f"{word} is not text in UTF-8")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise WrongUsage(str(error)) from error
        except HeadraceError as error:
            raise CommandFailed(str(error)) from error
        except click.ClickException as error:
            if error.message == printable(error.message):
                raise
            raise (WrongUsage if error.exit_code == 2 else CommandFailed)(error.message) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order below, which is that of use


class CommandFailed(click.ClickException):
    """The message has no control characters: it may contain names from the store."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class WrongUsage(CommandFailed):
    exit_code = 2


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Background jobs and events for Python, on one engine.

    Most commands need a store: give MODULE:APP, such as shop:app, or --url, or set HEADRACE_APP or
    HEADRACE_URL. The default is headrace.db in the working directory.

    \b
    Examples:
      headrace worker shop:app
      headrace enqueue shop:app add '[2, 3]' --wait
      headrace status shop:app --watch
      headrace dead shop:app
      headrace publish shop:app orders '{"order_id": 7}'
      headrace tail shop:app orders
    """


@click.command()
def version() -> None:
    """Print the versions of headrace, Python and SQLite."""
    import apsw

    python = ".".join(map(str, sys.version_info[:3]))
    echo(f"headrace {__version__}, Python {python}, SQLite {apsw.sqlite_lib_version()}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(headrace completion bash)"       in ~/.bashrc
      eval "$(headrace completion zsh)"        in ~/.zshrc
      headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"there is no completion for {shell}")
    echo(kind(ctx.find_root().command, {}, "headrace", "_HEADRACE_COMPLETE").source())


for command in (
    demo,
    worker,
    relay,
    enqueue,
    status,
    jobs,
    workers,
    dead,
    cancel,
    retry,
    pause,
    resume,
    purge,
    split,
    limits,
    schedules,
    topics,
    publish,
    tail,
    dashboard,
    doctor,
    schema,
    move,
    keys,
    bench,
    completion,
    version,
):
    cli.add_command(command)


def main() -> None:
    """The entry point of the `headrace` script."""
    cli(prog_name="headrace")
