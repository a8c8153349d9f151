"""The store that a command is about: `module:app`, `--app`, `--url`, the environment, or the default file.

Commands are wrapped by `on_store` or `on_store_with`, which call them with the app.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path

import click
import msgspec

from headrace.app import App
from headrace.cli.output.render import echo
from headrace.core.errors import ConfigurationError
from headrace.stores import DEFAULT_URL

from .completion import complete_app, completion_of, is_place
from .locate import locate
from .option_types import setting

_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE

#: Where a command keeps the `module:app` that it was given.
_TARGET = "headrace.target"

#: click passes the values of its parameters by name. It knows their types; a type checker does not.
Command = Callable[..., None]


class StoreOptions(msgspec.Struct, frozen=True):
    """The options and the environment that name the store."""

    app: str | None
    url: str | None
    namespace: str | None


def on_store(command: Command) -> Command:
    """Give a command `[MODULE:APP]` and the options of a store; it is called with the app."""

    @click.argument("target", required=False, metavar="[MODULE:APP]", shell_complete=complete_app)
    @_options
    @wraps(command)
    def run(target: str | None, given: StoreOptions, **options: object) -> None:
        with _without_findings(), opened(chosen(target, given)) as app:
            command(app, **options)

    return run


def on_store_with(expected: str) -> Callable[[Command], Command]:
    """As `on_store`, for a command that takes names or ids: it is called with the app and these.

    `expected` names them for the user, and says how many there are: `ID`, `TOPIC GROUP`, `ID...`, `[ID...]`.
    """
    least = sum(not word.startswith("[") for word in expected.split())
    most = None if "..." in expected else least

    def wrap(command: Command) -> Command:
        @click.argument(
            "words",
            nargs=-1,
            metavar=f"[MODULE:APP] {expected}",
            shell_complete=completion_of(expected),
        )
        @_options
        @wraps(command)
        def run(words: tuple[str, ...], given: StoreOptions, **options: object) -> None:
            is_named = _on_command_line("app") or _on_command_line("url")
            # Where nothing else names the store, a word that looks like one names it.
            remain = least if _is_known(given) else 0
            target, names = (None, words) if is_named else split(words, least=remain)
            if len(names) < least:
                raise click.UsageError(f"Missing argument '{expected}'.")
            if most is not None and len(names) > most:
                raise click.UsageError(f"Expected '{expected}', not '{' '.join(names)}'.")
            with _without_findings(), opened(chosen(target, given)) as app:
                command(app, names, **options)

        return run

    return wrap


def split(words: tuple[str, ...], *, least: int) -> tuple[str | None, tuple[str, ...]]:
    """The app or URL among the words, first or last, and the others, of which `least` must remain."""
    if len(words) > least:
        if is_place(words[0]):
            return words[0], words[1:]
        if is_place(words[-1]):
            return words[-1], words[:-1]
    return None, words


def chosen(target: str | None, given: StoreOptions) -> App:
    """The app: the command line has precedence over the environment."""
    named = [target] if target else []
    named += [value for name in ("app", "url") if (value := getattr(given, name)) and _on_command_line(name)]
    if len(named) > 1:
        raise ConfigurationError(f"the store is named more than once: {' or '.join(named)}")
    place = named[0] if named else given.app or given.url
    if place is None:
        return _default(given.namespace)
    if place == given.url and "://" not in place:
        raise ConfigurationError(f"{place!r} is no URL: write sqlite:///jobs.db, or name the app with --app")
    return on_url(place, given.namespace) if "://" in place else _of_module(place)


def on_url(url: str, namespace: str | None) -> App:
    """An app without tasks, on a store that must be there already."""
    app = App(url, namespace=namespace or "headrace")
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise ConfigurationError(
            f"there is no file {file}; workers and enqueue make it when they first use it"
        )
    return _shared(app)


def with_target(advice: str) -> str:
    """Advice that can be copied: the app that the command was given, in place of MODULE:APP. A program that
    has these commands for its own app, such as `manage.py`, needs none."""
    context = click.get_current_context(silent=True)
    if context is None:
        return advice
    program = context.find_root().info_name or ""
    if program.endswith(" headrace"):
        advice = advice.replace("headrace worker MODULE:APP", f"{program} worker")
    return advice.replace("MODULE:APP", context.meta.get(_TARGET, "MODULE:APP"))


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def located(target: str) -> App:
    """The app of `module:app`. What its module prints goes to standard error."""
    with redirect_stdout(sys.stderr):
        return _shared(locate(target))


@contextmanager
def opened(app: App) -> Iterator[App]:
    """The app for one command, closed afterwards."""
    try:
        yield app
    finally:
        app.sync.close()


@contextmanager
def _without_findings() -> Iterator[None]:
    """Log nothing of how the server is set up. Workers and producers log it, and the doctor prints it: above
    every listing it would only be in the way."""

    def wanted(record: logging.LogRecord) -> bool:
        return not getattr(record, "finding", "")

    logger = logging.getLogger("headrace")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


def _is_known(given: StoreOptions) -> bool:
    """Whether the options, the environment or the default file name a store."""
    file = sqlite_file(DEFAULT_URL)
    return bool(given.app or given.url) or (file is not None and file.exists())


def _of_module(target: str) -> App:
    if _on_command_line("namespace"):
        raise ConfigurationError(f"--namespace goes with --url; {target} has its own")
    click.get_current_context().meta[_TARGET] = target
    return located(target)


def _default(namespace: str | None) -> App:
    file = sqlite_file(DEFAULT_URL)
    if file is None or not file.exists():
        raise ConfigurationError(
            f"say where the store is: module:app, --url, or HEADRACE_URL (there is no {file} here)"
        )
    return on_url(DEFAULT_URL, namespace)


def _shared(app: App) -> App:
    if app.url == "memory://":
        raise ConfigurationError("the app is on memory://, which only the process that made it can see")
    if app.url is not None and app.url.startswith("memory://"):
        echo(f"note: {app.url} is this process's own; other processes do not see it", err=True)
    return app


def _options(command: Command) -> Command:
    @setting("app", metavar="MODULE:APP", show_envvar=True, help="The app.", shell_complete=complete_app)
    @setting("url", metavar="URL", show_envvar=True, help="Or its store, such as sqlite:///jobs.db.")
    @setting(
        "namespace", metavar="NAME", show_envvar=True, help="With --url: the app's, if it is not headrace."
    )
    @wraps(command)
    def run(app: str | None, url: str | None, namespace: str | None, **others: object) -> None:
        command(given=StoreOptions(app, url, namespace), **others)

    return run


def _on_command_line(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is _COMMAND_LINE
