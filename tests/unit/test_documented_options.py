"""Every option of the public API is explained in the docstring of its function: `help()`, editors and the
reference of the site show it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import App, RetryPolicy, Task, Topic
from headrace.admin.admin import Admin
from headrace.jobs.scheduling.schedules import Schedules

ROOT = Path(__file__).parents[2]

#: Functions with options, each with a list of them in its docstring.
LISTED: dict[str, Callable[..., Any]] = {
    "App": App,
    "App.task": App.task,
    "App.cron": App.cron,
    "App.every": App.every,
    "App.topic": App.topic,
    "App.queue": App.queue,
    "App.remote": App.remote,
    "App.worker": App.worker,
    "App.enqueue": App.enqueue,
    "App.enqueue_many": App.enqueue_many,
    "Task.with_": Task.with_,
    "Topic.subscribe": Topic.subscribe,
    "Topic.publish": Topic.publish,
    "Topic.consume": Topic.consume,
    "Schedules.add": Schedules.add,
    "Admin.jobs": Admin.jobs,
    "Admin.dead": Admin.dead,
    "Admin.replay": Admin.replay,
    "RetryPolicy.fixed": RetryPolicy.fixed,
    "RetryPolicy.exponential": RetryPolicy.exponential,
}

#: What a list need not explain: the object itself, and what makes an error of an unknown option.
NOT_OPTIONS = {"self", "function", "name", "unknown", "group", "call", "jobs"}


@pytest.mark.parametrize("name", LISTED)
def test_every_option_is_listed_with_its_meaning(name: str) -> None:
    items = re.findall(r"^ *- ((?:`\w+`(?: or )?)+): \S", LISTED[name].__doc__ or "", re.MULTILINE)
    listed = {option for item in items for option in re.findall(r"`(\w+)`", item)}
    options = set(inspect.signature(LISTED[name]).parameters)
    assert options - NOT_OPTIONS <= listed
    assert listed <= options


#: The tables of the guide, each with the functions whose options it has.
GUIDE: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "Options of a task": (App.task, {"function"}),
    "Options of one call": (Task.with_, {"self"}),
    "Options of the app": (App, {"unknown"}),
    "Retries": (RetryPolicy.exponential, set()),
}


@pytest.mark.parametrize("heading", GUIDE)
def test_the_guide_to_jobs_has_a_row_for_every_option(heading: str) -> None:
    function, others = GUIDE[heading]
    page = (ROOT / "docs" / "guides" / "jobs.md").read_text()
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
    listed = {option for cell in cells for option in re.findall(r"`(\w+)`", cell)}
    options = {name for name in inspect.signature(function).parameters if name not in {"self", *others}}
    assert options - listed == set()
    assert listed - options == set()


def test_every_public_name_has_a_place_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    named = {path.rpartition(".")[2] for path in re.findall(r"^::: (\S+)", pages, re.MULTILINE)}
    assert set(headrace.__all__) - named == {"CallNext", "__version__"}  # a type, and a text


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in headrace.__all__:
        found = getattr(headrace, name)
        if not isinstance(found, type):
            continue
        for attribute, member in inspect.getmembers(found, inspect.isfunction):
            if not attribute.startswith("_") or attribute == "__init__":
                yield f"{name}.{attribute}", member


def test_no_public_function_takes_options_that_are_not_named() -> None:
    """Arguments of a task (`P.kwargs`) are named by the task; `Never` takes none."""
    open_ended = set()
    for name, function in public_functions():
        for each in inspect.signature(function).parameters.values():
            if each.kind is Parameter.VAR_KEYWORD and function.__module__.startswith("headrace"):
                open_ended.add((name, each.annotation))
    assert {annotation for _, annotation in open_ended} <= {"Never", "P.kwargs"}, open_ended
