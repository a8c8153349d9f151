"""The tasks of Django 6, or those of the package `django-tasks` for Django 5.2. Both have the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import django
from django.conf import settings
from django.utils import timezone

from headrace.core.errors import ConfigurationError

if django.VERSION >= (6, 0):
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import DEFAULT_TASK_PRIORITY, TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
else:
    try:
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import DEFAULT_TASK_PRIORITY, TaskError
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ModuleNotFoundError as error:
        if error.name != "django_tasks":
            raise
        raise ConfigurationError(
            f"Django {django.get_version()} has no tasks: pip install 'django-tasks>=0.12', or use Django 6"
        ) from error

__all__ = [
    "DEFAULT_TASK_PRIORITY",
    "BaseTaskBackend",
    "DjangoResult",
    "DjangoTask",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
    "to_django",
    "to_headrace",
]


class DjangoTask(Protocol):
    """A task, as `@task` makes it. `module_path` is the name of its function with that of the module."""

    @property
    def func(self) -> Callable[..., Any]: ...
    @property
    def module_path(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def queue_name(self) -> str: ...
    @property
    def run_after(self) -> datetime | None: ...
    @property
    def takes_context(self) -> bool: ...


class DjangoResult(Protocol):
    """What Django knows of an enqueued task."""

    @property
    def id(self) -> str: ...
    @property
    def args(self) -> Sequence[Any]: ...
    @property
    def kwargs(self) -> Mapping[str, Any]: ...
    @property
    def errors(self) -> list[Any]: ...


def to_django(moment: datetime | None) -> datetime | None:
    """A time of headrace as Django has it: in UTC, or without a zone if `USE_TZ` is False. Then it is that of
    `TIME_ZONE`: a zone that a request has activated is for what its user sees."""
    if moment is None or settings.USE_TZ:
        return moment
    naive: datetime = timezone.make_naive(moment, timezone.get_default_timezone())
    return naive


def to_headrace(moment: datetime) -> datetime:
    """A time of Django with its zone."""
    if timezone.is_aware(moment):
        return moment
    aware: datetime = timezone.make_aware(moment, timezone.get_default_timezone())
    return aware
