"""`manage.py headrace worker`: the command line of headrace, for the app of a task backend."""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser
from typing import Final

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from headrace.cli.main import cli
from headrace.cli.target.completion import is_place
from headrace.core.errors import ConfigurationError
from headrace.django.backend import Backend, get_app
from headrace.django.framework import task_backends

#: Commands whose first argument is the app. The others take it from the environment.
TAKE_THE_APP: Final = ("enqueue", "publish", "relay", "worker")


class Command(BaseCommand):  # type: ignore[misc]
    help = "Runs a command of headrace for this project: worker, status, dead, doctor, dashboard, ..."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="The alias in TASKS.")
        parser.add_argument("words", nargs=REMAINDER, metavar="command ...", help="As for `headrace`.")

    def handle(self, *, words: list[str], backend: str, **_: object) -> None:
        try:
            get_app(backend)
        except (ConfigurationError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        target = f"headrace.django.project:{backend}"
        os.environ["HEADRACE_APP"] = target
        try:
            cli.main(args=with_app(words, target, backend), prog_name="manage.py headrace")
        except SystemExit as ended:
            if ended.code:  # a program that calls this command goes on after a success
                raise


def with_app(words: list[str], target: str, alias: str) -> list[str]:
    """The words of a command with the app of this project, unless they name another one."""
    command, rest = words[:1], words[1:]
    if command and command[0] in TAKE_THE_APP and not (rest and is_place(rest[0])):
        rest = [target, *rest]
        if command[0] == "worker" and not _names_queues(rest):
            rest += ["--queues", ",".join(served_queues(alias))]
    return command + rest


def served_queues(alias: str) -> list[str]:
    """The queues of a worker: those of the setting QUEUES, and those that the tasks name."""
    backend: Backend = task_backends[alias]
    declared = {task.options.queue for task in backend.app.tasks.values()}
    return sorted({"default", *backend.queues, *declared})


def _names_queues(words: list[str]) -> bool:
    return "HEADRACE_QUEUES" in os.environ or any(word.split("=")[0] == "--queues" for word in words)
