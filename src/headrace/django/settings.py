"""One entry of `TASKS` in the settings of Django: its options, and the app that they describe."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec
from django.utils.module_loading import import_string

from headrace.app import App
from headrace.core.errors import ConfigurationError
from headrace.core.messages.retry import RetryFunction, RetryPolicy, checked_retry
from headrace.jobs.options import TaskSettings

#: When a job is stored: at once, after the commit of the transaction, or as a part of the transaction.
EnqueueMode = Literal["now", "on_commit", "in_transaction"]

#: Options of a task that Django decides itself.
_DJANGO_DECIDES: Final = ("name", "queue", "priority", "batch", "batch_wait")


class BackendSettings(msgspec.Struct, frozen=True):
    """The options of a backend, checked. `app_options` are those of `App`, or `app` names an app."""

    enqueue: EnqueueMode
    database: str
    retry: RetryPolicy | RetryFunction
    task_options: Mapping[str, TaskSettings]
    app: str | None
    app_options: Mapping[str, Any]


def backend_settings(params: Mapping[str, Any]) -> BackendSettings:
    """The settings in one entry of `TASKS`."""
    options = dict(params.get("OPTIONS", {}))
    on_commit = params.get("ENQUEUE_ON_COMMIT", False)  # as older versions of django-tasks have it
    return BackendSettings(
        enqueue=_mode(options.pop("enqueue", "on_commit" if on_commit else "now")),
        database=options.pop("database", "default"),
        retry=checked_retry(options.pop("retry", RetryPolicy.none())),
        task_options=_task_options(options.pop("task_options", {})),
        app=_app_name(options.pop("app", None), options),
        app_options=options,
    )


def _mode(value: object) -> EnqueueMode:
    match value:
        case "now" | "on_commit" | "in_transaction":
            return value
    raise ConfigurationError(
        f"the option 'enqueue' of a task backend is one of {', '.join(get_args(EnqueueMode))}, not {value!r}"
    )


def _task_options(value: Mapping[str, TaskSettings]) -> Mapping[str, TaskSettings]:
    for name, options in value.items():
        for option in _DJANGO_DECIDES:
            if option in options:
                raise ConfigurationError(
                    f"the task_options of {name} name {option!r}, which Django decides: give it to @task"
                )
    return value


def _app_name(name: str | None, others: Mapping[str, Any]) -> str | None:
    if name is not None and others:
        raise ConfigurationError(
            f"the task backend has the app {name!r}: give {', '.join(sorted(others))} to that App(...)"
        )
    return name


# --- the apps of this process ------------------------------------------------------------------------------

#: The apps by alias and settings. Django makes a backend for each thread, and all of them share the app.
#: Tests may change the settings and change them back.
_apps: list[tuple[str, BackendSettings, App]] = []
_lock = threading.Lock()


def app_of(alias: str, settings: BackendSettings) -> App:
    """The app of a backend, which is made once in a process."""
    if settings.app is not None:
        return _named_app(settings.app)
    with _lock:
        for known, its_settings, app in _apps:
            if (known, its_settings) == (alias, settings):
                return app
        app = App(**settings.app_options)
        _apps.append((alias, settings, app))
        return app


def _named_app(name: str) -> App:
    app = import_string(name)
    if not isinstance(app, App):
        raise ConfigurationError(f"{name} is no App: its type is {type(app).__name__}")
    return app
