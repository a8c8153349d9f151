"""`Depends`: reads the dependencies of a function from the defaults of its parameters.

The existing libraries (`uncalled-for`, `fast-depends`) do not fit. Bare generators, plain factories in the
thread of their task, a scope as long as the worker's, and a failure that no cleanup can hide would have to be
built around them. That is most of what is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from inspect import Parameter, Signature
from typing import Any, Literal, TypeVar, get_args, overload

import msgspec

from headrace.core.errors import ConfigurationError

T = TypeVar("T")

#: How long a value lives: until the end of the run, or of the worker (for process tasks: of its child).
Scope = Literal["job", "worker"]


class Dependency(msgspec.Struct, frozen=True, eq=False):
    """The default that `Depends` puts on a parameter."""

    factory: Callable[..., Any]
    scope: Scope

    def __repr__(self) -> str:
        return f"Depends({getattr(self.factory, '__qualname__', self.factory)})"


class Need(msgspec.Struct, frozen=True, eq=False):
    """A parameter that is provided at run time, and what its factory needs in turn."""

    name: str
    factory: Callable[..., Any]
    scope: Scope
    needs: tuple[Need, ...] = ()


@overload
def Depends(factory: Callable[..., _AsyncGeneratorContextManager[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(factory: Callable[..., _GeneratorContextManager[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(factory: Callable[..., AsyncIterator[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(factory: Callable[..., Iterator[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(factory: Callable[..., Coroutine[Any, Any, T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(factory: Callable[..., T], *, scope: Scope = ...) -> T: ...


def Depends(factory: Callable[..., Any], *, scope: Scope = "job") -> Any:  # noqa: N802 - it reads as a declaration
    """As a parameter's default, `db: Database = Depends(get_db)`: have the worker provide it.

    - `factory`: makes the value: a function or an `async def`. A generator (or what `contextlib` makes of
      one) is cleaned up after the run. It may have dependencies of its own
    - `scope`: `"job"`: the factory is called once within a run. `"worker"`: once in a worker's life
    """
    if not callable(factory):
        raise ConfigurationError(f"Depends() takes a function that makes the value, not {factory!r}")
    if scope not in get_args(Scope):
        raise ConfigurationError(f"the scope of a dependency is 'job' or 'worker', not {scope!r}")
    return Dependency(factory, scope)


def needs_of(function: Callable[..., Any]) -> tuple[Need, ...]:
    """The dependencies of a task's function. Raises `ConfigurationError` when one cannot be provided."""
    signature = inspect.signature(function)
    needs = _needs(signature)
    for need in needs:
        kind = signature.parameters[need.name].kind
        if kind is Parameter.POSITIONAL_ONLY or (
            kind is not Parameter.KEYWORD_ONLY and _takes_any(signature)
        ):
            raise ConfigurationError(
                f"the dependency {need.name} of {function.__qualname__} must be a keyword-only parameter "
                "there: put it behind a `*`"
            )
    return needs


def asked_of_callers(signature: Signature) -> Signature:
    """The parameters that are sent. Those after a dependency can only be given by name."""
    parameters: list[Parameter] = []
    by_name_only = False
    for each in signature.parameters.values():
        if isinstance(each.default, Dependency):
            by_name_only = True
        elif by_name_only and each.kind is Parameter.POSITIONAL_OR_KEYWORD:
            parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))
        else:
            parameters.append(each)
    return signature.replace(parameters=parameters)


def _needs(signature: Signature) -> tuple[Need, ...]:
    return tuple(
        _need(name, each.default)
        for name, each in signature.parameters.items()
        if isinstance(each.default, Dependency)
    )


def _need(name: str, dependency: Dependency) -> Need:
    try:
        signature = inspect.signature(dependency.factory)
    except (TypeError, ValueError):  # a type written in C, for example: it has no dependencies
        signature = Signature()
    need = Need(name, dependency.factory, dependency.scope, _needs(signature))
    wanting = [
        each.name
        for each in signature.parameters.values()
        if each.default is Parameter.empty and each.kind not in _OPEN
    ]
    if wanting:
        raise ConfigurationError(
            f"{dependency!r} cannot be called: nothing is known for {', '.join(wanting)}"
        )
    for each in need.needs:
        if need.scope == "worker" and each.scope == "job":
            raise ConfigurationError(
                f"{dependency!r} lives as long as the worker, so its {each.name} needs scope='worker' too"
            )
    return need


def _takes_any(signature: Signature) -> bool:
    return any(each.kind is Parameter.VAR_POSITIONAL for each in signature.parameters.values())


_OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
