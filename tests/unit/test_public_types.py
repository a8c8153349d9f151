"""Whatever a public method takes or returns can be imported from a public module, for annotations."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import FunctionType, GenericAlias, ModuleType
from typing import Any, get_args, get_origin, get_overloads, get_type_hints

import pytest

import headrace
import headrace.admin
import headrace.events
import headrace.jobs
import headrace.signals
import headrace.store
import headrace.sync
import headrace.testing
from headrace.engine.declared.subscription import Subscription

MODULES: list[ModuleType] = [
    headrace,
    headrace.admin,
    headrace.events,
    headrace.jobs,
    headrace.signals,
    headrace.store,
    headrace.sync,
    headrace.testing,
]

#: Names that are imported for type checkers alone.
FOR_CHECKERS = {
    "Answer": headrace.store.Answer,
    "App": headrace.App,
    "Job": headrace.Job,
    "Run": headrace.Run,
    "Subscription": Subscription,
    "SyncJob": headrace.jobs.SyncJob,
    "Topic": headrace.Topic,
}

#: A run is the engine's own; this is what middleware may use of it.
OF_A_RUN = {"id", "task", "queue", "attempt", "args", "kwargs", "headers"}

#: Methods that are called by Python itself.
SPECIAL = {"__aenter__", "__aiter__", "__anext__", "__call__", "__enter__", "__iter__", "__next__"}


def test_everything_in_the_annotations_of_the_public_api_is_public() -> None:
    public = {value for module in MODULES for value in exported(module) if isinstance(value, type)}
    functions = {value for module in MODULES for value in exported(module) if isinstance(value, FunctionType)}
    named = [
        *chain.from_iterable(map(classes_in, public)),
        *chain.from_iterable(map(classes_in_function, functions)),
    ]
    hidden = {
        f"{found.__module__}.{found.__name__}": where
        for where, found in named
        if found not in public and not found.__name__.startswith("_")
    }
    assert hidden == {}


@pytest.mark.parametrize("name", ["admin", "schedules", "sync"])
def test_the_parts_of_an_app_are_public(name: str) -> None:
    kind = type(getattr(headrace.App("memory://"), name))
    assert kind in {value for module in MODULES for value in exported(module)}


def exported(module: ModuleType) -> list[Any]:
    return [getattr(module, name) for name in module.__all__]


def classes_in(public: type) -> Iterator[tuple[str, type]]:
    """The classes of headrace in the annotations of a class, and where each is."""
    for base in public.__mro__:
        if not base.__module__.startswith("headrace"):
            continue
        for name, annotation in hints_of(base).items():
            if is_visible(public, name):
                yield from ((f"{public.__name__}.{name}", found) for found in classes_of(annotation))
        for name, member in vars(base).items():
            if is_visible(public, name):
                yield from classes_in_function(member)


def classes_in_function(member: object) -> Iterator[tuple[str, type]]:
    """The classes of headrace in the annotations of a function, a method or a property."""
    for function in functions_of(member):
        for annotation in hints_of(function).values():
            yield from ((function.__qualname__, found) for found in classes_of(annotation))


def is_visible(public: type, name: str) -> bool:
    if public is headrace.Run:
        return name in OF_A_RUN
    # What makes an object takes parts of the engine, except for the one object that a user makes.
    return not name.startswith("_") or name in SPECIAL or (public is headrace.App and name == "__init__")


def functions_of(member: object) -> list[Callable[..., Any]]:
    member = member.fget if isinstance(member, property) else member
    member = getattr(member, "__func__", member)
    if not isinstance(member, FunctionType):
        return []
    return [*get_overloads(member)] or [inspect.unwrap(member)]


def hints_of(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner, localns=FOR_CHECKERS)


def classes_of(annotation: Any) -> Iterator[type]:
    """The classes of headrace in an annotation, however deep."""
    origin = get_origin(annotation)
    for each in (origin, annotation) if not isinstance(annotation, GenericAlias) else (origin,):
        if isinstance(each, type) and each.__module__.startswith("headrace"):
            yield each
    for argument in get_args(annotation):
        for each in argument if isinstance(argument, list | tuple) else [argument]:
            yield from classes_of(each)


@pytest.mark.more
@pytest.mark.timeout(300)
def test_a_type_checker_knows_the_type_of_everything_public(tmp_path: Path) -> None:
    """Pyright asks every module of the package; here what users can import is looked at."""
    own = Path(sys.executable).parent
    command = [str(own / "pyright"), "--verifytypes", "headrace", "--ignoreexternal", "--outputjson"]
    environment = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ['PATH']}"}
    # Elsewhere, since it would take the folder of the project for the package.
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    symbols = json.loads(found.stdout)["typeCompleteness"]["symbols"]
    imported = {f"{module.__name__}.{name}" for module in MODULES for name in module.__all__}
    defined = {
        f"{value.__module__}.{value.__name__}"
        for module in MODULES
        for value in exported(module)
        if isinstance(value, type)
    }
    unknown = {symbol["name"] for symbol in symbols if not symbol["isTypeKnown"]}
    assert "headrace.App" in {symbol["name"] for symbol in symbols}
    assert {name for name in unknown if is_of(name, imported | defined)} == set()


def is_of(name: str, public: set[str]) -> bool:
    """Whether it is a public class or a visible member of one."""
    owner, _, member = name.rpartition(".")
    return name in public or (owner in public and not member.startswith("_"))
