"""The apps of a Django project for the command line, by the aliases of their backends:
`DJANGO_SETTINGS_MODULE=shop.settings headrace worker headrace.django.project:default`.

`manage.py headrace` uses it, and so do the worker processes of `--processes`.
"""

from __future__ import annotations

import logging
from typing import Final

import django
from django.apps import apps
from django.utils.log import RequireDebugTrue
from django.utils.module_loading import autodiscover_modules

from headrace.cli.output.render import is_terminal
from headrace.cli.worker.logging import TextFormatter

from .backend import Backend, get_app
from .framework import task_backends

#: They write a line when a task begins and when it ends. On a terminal, a worker writes that itself.
TASK_LOGGERS: Final = frozenset({"django.tasks", "django_tasks"})


def write_lines_once(root: logging.Logger) -> None:
    """Leave the terminal to the handler of a worker. Without this, Django with DEBUG writes each of its lines
    a second time, without the time and the job. Other commands have no such handler."""
    ours = [handler for handler in root.handlers if isinstance(handler.formatter, TextFormatter)]
    if not ours:
        return
    console = logging.getLogger("django").handlers
    console[:] = [each for each in console if not any(isinstance(f, RequireDebugTrue) for f in each.filters)]
    if is_terminal("stderr"):
        for handler in ours:
            handler.addFilter(lambda record: record.name not in TASK_LOGGERS)


if not apps.ready:
    django.setup()
autodiscover_modules("tasks")  # where headrace.django is not in INSTALLED_APPS

headrace_aliases = [alias for alias in task_backends if isinstance(task_backends[alias], Backend)]
globals().update({alias: get_app(alias) for alias in headrace_aliases})
write_lines_once(logging.getLogger())
