"""`headrace completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .output.render import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(headrace completion bash)"                                   in ~/.bashrc
      eval "$(headrace completion zsh)"                                    in ~/.zshrc
      headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"there is no completion for {shell}")
    echo(kind(ctx.find_root().command, {}, "headrace", "_HEADRACE_COMPLETE").source())
