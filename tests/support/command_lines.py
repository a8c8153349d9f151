"""Command lines of `headrace` on pages and in files: whether their commands and options exist."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.main import cli


def unknown_words(words: Sequence[str]) -> list[str]:
    """The commands and options of `headrace WORDS` that do not exist. Values of options are not looked at."""
    command: click.Command = cli
    context = click.Context(cli)
    unknown = []
    for word in words:
        if word.startswith("-") and word != "-":
            if word.split("=")[0] not in _options(command):
                unknown.append(word)
        elif isinstance(command, click.Group) and (found := command.get_command(context, word)) is not None:
            command = found
        elif command is cli:
            unknown.append(word)
    return unknown


def _options(command: click.Command) -> set[str]:
    """The options of a command; of a group also those of its commands, since one of them may be left out."""
    names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "-h",
    }
    if isinstance(command, click.Group):
        return names.union(*map(_options, command.commands.values()))
    return names
