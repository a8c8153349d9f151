"""What a shell offers after the Tab key: apps, tasks, queues and topics.

Apps are found by reading the Python files of the folder. For names, the app of the command line is imported
and its store is asked. All of this happens in a thread with a time limit, and errors offer nothing: the shell
waits for the answer, and the prompt is no place for messages.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click

from headrace.app import App
from headrace.core.errors import HeadraceError
from headrace.core.values.names import PATTERN
from headrace.engine.app_loop.retrying import without_retries

from .locate import locate

#: Seconds for the import of the module and the answer of the store.
LONGEST = 2.0

#: Files that are read for apps at most, and bytes of each.
MOST_FILES, MOST_BYTES = 500, 256 * 1024

_APP = re.compile(rb"^(\w+)\s*(?::[^=\n]+)?=\s*(?:headrace\.)?App\(", re.MULTILINE)
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_app(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Apps of the Python files in this folder, and in the packages in it."""
    return apps_starting(typed)


def apps_starting(typed: str) -> list[str]:
    return _starting(typed, _apps(Path.cwd()))


def complete_task(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Tasks of the app by their whole names, else by the last parts of their names."""
    names = _asked(context, lambda app: list(app.tasks))
    return _starting(typed, names) or _starting(typed, (name.rpartition(".")[2] for name in names))


def complete_queue(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Queues of the app and of its store."""
    return _starting(typed, _asked(context, _queues))


def complete_queues(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """A list of queues with commas: its last name is completed."""
    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_queue(context, parameter, last)]


def complete_topic(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Topics of the app and of its store."""
    return _starting(typed, _asked(context, _topics))


def completion_of(expected: str) -> Complete:
    """For the words of a command that takes `[MODULE:APP]` and names: `QUEUE...`, `TOPIC GROUP`, `ID`."""
    of_names = {"QUEUE": complete_queue, "TOPIC": complete_topic}.get(expected.strip("[.]").split()[0])

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        words: tuple[str, ...] = context.params.get("words") or ()
        names = [word for word in words if not is_place(word)]
        apps = [] if words else complete_app(context, parameter, typed)
        if of_names is None or (names and "..." not in expected):
            return apps
        return apps + of_names(context, parameter, typed)

    return complete


def is_place(word: str) -> bool:
    """Whether a word says where a store is."""
    return "://" in word or _TARGET.fullmatch(word) is not None


def _starting(typed: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(typed)})


def _apps(folder: Path) -> list[str]:
    files = [*folder.glob("*.py"), *folder.glob("*/*.py"), *folder.glob("src/*/*.py")]
    found = []
    for file in files[:MOST_FILES]:
        module = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        with file.open("rb") as opened:
            found += [f"{module}:{name.decode()}" for name in _APP.findall(opened.read(MOST_BYTES))]
    return [each for each in found if _TARGET.fullmatch(each)]


def _asked(context: click.Context, names_of: Callable[[App], list[str]]) -> list[str]:
    """The names, or none when the app cannot be imported or the store does not answer in time."""
    found: list[str] = []

    def ask() -> None:
        try:
            app = _chosen(context)
            if app is not None:
                found.extend(names_of(app))
        except (Exception, SystemExit):  # an error of the user's module, or of the store
            pass

    # A module that prints, and a store that logs a warning, must not write over the prompt.
    with open(os.devnull, "w") as silent, redirect_stdout(silent), redirect_stderr(silent):
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(LONGEST)
    return list(found)


def _chosen(context: click.Context) -> App | None:
    """The app or URL that the command line names so far, else the environment, else the default file."""
    params = context.params
    # click leaves the words in `args` when the value of an option is what is being typed.
    written = params.get("target"), *(params.get("words") or ()), *context.args
    words = (*written, params.get("app"), params.get("url"))
    place = next((word for word in words if word and is_place(word)), None)
    if place is not None and "://" not in place:
        return locate(place)
    return App(place, namespace=params.get("namespace") or "headrace")


def _queues(app: App) -> list[str]:
    declared = {"default", *app.declared_queues, *(task.options.queue for task in app.tasks.values())}
    return [*declared, *_stored(app, lambda: [queue.name for queue in app.sync.admin.queues()])]


def _topics(app: App) -> list[str]:
    return [*app.declared_topics, *_stored(app, lambda: [topic.name for topic in app.sync.admin.topics()])]


def _stored(app: App, ask: Callable[[], list[str]]) -> list[str]:
    """What the store knows. A SQLite file is not made for this. Another program may have written names that
    steer a terminal or a shell, and no client may give them: they are left out."""
    url = app.url or ""
    if url.startswith("memory://"):
        return []
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return []
    try:
        with without_retries():
            return [name for name in ask() if PATTERN.fullmatch(name)]
    except HeadraceError:
        return []
