"""Functions that become tasks: what they may be, and where they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from headrace.core.encoding.upcasts import Upcasts
from headrace.core.errors import ConfigurationError
from headrace.core.messages.directives import BatchResult
from headrace.jobs.options import TaskOptions
from headrace.jobs.payload.arguments import Arguments
from headrace.jobs.payload.batch_arguments import BatchArguments
from headrace.jobs.payload.versions import Upcast, VersionedArguments
from headrace.jobs.task import Task


def place_of(
    function: Callable[..., Any], options: TaskOptions, *, is_async: bool
) -> Literal["loop", "thread", "process"]:
    """Where the function of a task runs."""
    if options.batch is not None and options.run_in == "process":
        raise ConfigurationError(
            f"{options.name} has batch= and run_in='process': a list of jobs runs on the event loop or in a "
            "thread; write run_in='thread', or leave out batch="
        )
    if options.run_in is None:
        return "loop" if is_async else "thread"
    if options.run_in == "thread" and is_async:
        raise ConfigurationError(f"{options.name} is an async function, which runs on the event loop")
    if options.run_in == "process" and "<locals>" in function.__qualname__:
        raise ConfigurationError(
            f"{options.name} is a local function, which another process cannot find: declare it in a module"
        )
    return options.run_in


def check_function(function: object) -> None:
    """Raise a `ConfigurationError` for a value that cannot become a task."""
    written = hasattr(function, "__qualname__") and hasattr(function, "__annotations__")
    if isinstance(function, Task | type) or not callable(function) or not written:
        raise ConfigurationError(
            f"a task is made from a function (`def` or `async def`), not from {function!r}"
        )
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError(f"{function!r} is a generator, which cannot be a task")


def kept_for(function: Callable[..., Any], options: TaskOptions, default: float) -> float:
    """Seconds for which results of the function are kept; 0: not at all."""
    if options.result_ttl is not None:
        return options.result_ttl
    returns = function.__annotations__.get("return", "")
    # A batch task that reports single failures has no results either.
    none = (None, "None", BatchResult, "BatchResult")
    return 0.0 if returns in none else default


def arguments_of(
    function: Callable[..., Any], local_names: Mapping[str, Any], options: TaskOptions
) -> Arguments:
    """The arguments of a task, as its options have them."""
    upcasts: Upcasts[Upcast] = Upcasts(options.name, options.version)
    if options.batch is not None:
        return BatchArguments(function, local_names, upcasts)
    if options.version == 1:
        return Arguments(function, local_names)
    return VersionedArguments(function, local_names, upcasts)
