"""Every call of a verb of a store or of a child process in the source, read from its syntax: so that the list
of crash points cannot shrink without notice."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import headrace

from .verbs import CHILD_VERBS, KEEPER_VERBS, STORE_VERBS

SOURCE: Final = Path(headrace.__file__).parent

#: The packages that wait for stores. `sync` has copies of `admin` and `schedules` that run through them.
PACKAGES: Final = ("engine", "jobs", "events", "admin")

#: The last name of the expression on which a verb is called, when that is a store or the router above it.
STORES: Final = frozenset({"store", "_store", "backend", "_backend", "demand()", "demand_limiting()"})
KEEPERS: Final = frozenset({"_lease_keeper"})
CHILDREN: Final = frozenset({"child", "ChildProcess", "_processes"})

#: Others on which something with the name of a verb is called. A new one must be added here or above.
OTHERS: Final = frozenset(
    {
        "self",
        "_cleaning",
        "_lookup",
        "_outboxes",
        "_publisher",
        "_ready",
        "_sender",
        "_steering",
        "_topic_reader",
        "cursor",
        "DeadLetterVerbs()",
        "executor",
        "opened",
        "place",
        "Place()",
        "producer",
        "reader",
        "resources",
        "source",
        "stored",
        "subscriptions",
        "target",
    }
)


class StoreAwait(msgspec.Struct, frozen=True):
    """A place in the source at which a verb is called, to be awaited there or by the caller."""

    name: str  # file:function:verb, with a number when the function has several
    file: str
    first: int  # its lines
    last: int

    def covers(self, file: str, line: int) -> bool:
        return file == self.file and self.first <= line <= self.last


def all_awaits() -> list[StoreAwait]:
    return [each for path in _files() for each in _awaits_of(path)]


def unknown_receivers() -> set[str]:
    """Names on which something with the name of a verb is awaited, and of which it is not known whether they
    are stores."""
    known = STORES | KEEPERS | CHILDREN | OTHERS
    return {receiver for path in _files() for receiver, _ in _awaited(path) if receiver not in known}


def _files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((SOURCE / package).rglob("*.py"))


def _awaits_of(path: Path) -> Iterator[StoreAwait]:
    file, seen = str(path.relative_to(SOURCE)), Counter[str]()
    for function, call, attribute in _calls(path):
        if not _is_verb(_last_name(attribute.value), attribute.attr):
            continue
        name = f"{file}:{function}:{attribute.attr}"
        seen[name] += 1
        numbered = name if seen[name] == 1 else f"{name}#{seen[name]}"
        yield StoreAwait(numbered, file, call.lineno, call.end_lineno or call.lineno)


def _is_verb(receiver: str, verb: str) -> bool:
    return (
        (receiver in STORES and verb in STORE_VERBS)
        or (receiver in KEEPERS and verb in KEEPER_VERBS)
        or (receiver in CHILDREN and any(verb in verbs for verbs in CHILD_VERBS.values()))
    )


def _calls(path: Path) -> Iterator[tuple[str, ast.Call, ast.Attribute]]:
    """Each call of a method, with the function around it."""
    for function in _functions(ast.parse(path.read_text()), ""):
        name, node = function
        for call in _own_nodes(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                yield name, call, call.func


def _functions(node: ast.AST, around: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child
            yield from _functions(child, child.name)
        else:
            yield from _functions(child, around)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Everything in a function but not in a function inside it. A lambda belongs to its function."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own_nodes(child)


def _awaited(path: Path) -> Iterator[tuple[str, str]]:
    """Receiver and verb of each call inside an `await`."""
    verbs = STORE_VERBS | KEEPER_VERBS
    awaited = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Await))
    for node in (each for value in awaited for each in ast.walk(value)):
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr=verb)) if verb in verbs:
                yield _last_name(receiver), verb


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return f"{_last_name(function)}()"
        case _:
            return ast.unparse(node)
