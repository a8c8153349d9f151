"""Help, versions and completion: what does not need a store."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from headrace import __version__
from headrace.cli.main import cli

from .conftest import Shell


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("path", [*commands(cli)], ids=" ".join)
def test_every_command_has_help_and_examples_that_name_it(headrace: Shell, path: tuple[str, ...]) -> None:
    text = headrace(*path, "--help").stdout
    assert text.startswith("Usage: headrace")
    assert path == ("version",) or f"headrace {path[0]}" in text.split("Examples:")[1]


def test_a_listing_may_be_asked_for_by_the_noun_alone(headrace: Shell) -> None:
    text = headrace("jobs", "--help").stdout
    assert "--older-than" in text
    assert "show" in text


def test_the_version_is_told(headrace: Shell) -> None:
    assert headrace("version").stdout.startswith(f"headrace {__version__}, Python ")
    assert headrace("--version").stdout == f"headrace {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(headrace: Shell, shell: str) -> None:
    assert "_HEADRACE_COMPLETE" in headrace("completion", shell).stdout


def test_a_command_that_does_not_exist_is_refused(headrace: Shell) -> None:
    assert "No such command" in headrace.refused("demolish")


@pytest.mark.parametrize("words", [("retry", "\udc80"), ("status", "--url", "\udc80"), ("\udc80",)])
def test_bytes_that_are_no_text_are_refused(headrace: Shell, words: tuple[str, ...]) -> None:
    assert "\\udc80 is not text in UTF-8" in headrace.refused(*words)
