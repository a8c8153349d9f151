"""JSON → a call of a task, or the payload of an event, in the annotated types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import msgspec

from headrace.core.encoding.annotations import hints_of
from headrace.core.encoding.encoding import is_secret, secret_of
from headrace.core.encoding.models import is_secret_of_pydantic, secret_of_pydantic
from headrace.core.errors import ConfigurationError
from headrace.events.topic import Topic
from headrace.jobs.task import Call, Task

_TOO_DEEP = "nested too deeply: lists and objects within each other, some hundreds are possible"

#: How arguments are written.
FORMS = """write a list, such as '[1, 2]', or an object, such as '{"a": 1}'"""


def call_from_json(task: Task[Any, Any], text: str | None) -> Call[Any]:
    """A call of the task; a `ConfigurationError` says what does not fit."""
    args, kwargs = _parsed(text)
    signature = inspect.signature(task)
    hints = hints_of(_function(task), {})
    try:
        signature.bind(*args, **kwargs)
        positional = [_converted(_at(signature, place), value, hints) for place, value in enumerate(args)]
        named = {name: _converted(_called(signature, name), value, hints) for name, value in kwargs.items()}
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the arguments do not fit {task.name}{signature}: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"the arguments of {task.name} are {_TOO_DEEP}") from None
    return task.call(*positional, **named)


def payload_from_json(topic: Topic[Any], text: str) -> Any:
    """The payload of an event; a `ConfigurationError` says what does not fit."""
    wanted = topic.wanted
    try:
        return msgspec.convert(msgspec.json.decode(text), wanted, str_keys=True, dec_hook=_restored)
    except msgspec.ValidationError as error:
        name = getattr(wanted, "__name__", str(wanted))
        raise ConfigurationError(
            f"the event does not fit {name}, the type of {topic.name}: {error}"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the event is no JSON ({error})") from None
    except RecursionError:
        raise ConfigurationError(f"the event is {_TOO_DEEP}") from None


def _parsed(text: str | None) -> tuple[list[Any], dict[str, Any]]:
    try:
        value = msgspec.json.decode(text) if text else []
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the arguments are no JSON ({error}): {FORMS}") from None
    except RecursionError:
        raise ConfigurationError(f"the arguments are {_TOO_DEEP}") from None
    match value:
        case list():
            return value, {}
        case dict():
            return [], value
        case _:
            raise ConfigurationError(f"{text} is neither a list nor an object of arguments: {FORMS}")


def _function(task: Task[Any, Any]) -> Callable[..., Any]:
    function: Callable[..., Any] = task.__wrapped__
    return function


def _at(signature: Signature, place: int) -> Parameter:
    """The parameter that takes the argument at this place."""
    parameters = list(signature.parameters.values())
    for number, parameter in enumerate(parameters):
        if number == place or parameter.kind is Parameter.VAR_POSITIONAL:
            return parameter
    raise ValueError(f"there is no parameter for argument {place + 1}")


def _called(signature: Signature, name: str) -> Parameter:
    """The parameter that takes the argument of this name."""
    parameter = signature.parameters.get(name)
    if parameter is not None and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
        return parameter
    [rest] = [each for each in signature.parameters.values() if each.kind is Parameter.VAR_KEYWORD]
    return rest


def _converted(parameter: Parameter, value: Any, hints: dict[str, Any]) -> Any:
    wanted = hints.get(parameter.name, Any)
    try:
        return msgspec.convert(value, wanted, str_keys=True, dec_hook=_restored)
    except msgspec.ValidationError as error:
        text = str(error)
        place = text if " - at `$" in text else f"{text} - at `$`"
        raise ValueError(place.replace("`$", f"`{parameter.name}", 1)) from error


def _restored(wanted: Any, value: Any) -> Any:
    """Types that msgspec does not know: pydantic's models, which read JSON themselves, and secrets."""
    if is_secret(wanted):
        return secret_of(wanted, value, _restored, str_keys=True)
    if is_secret_of_pydantic(wanted):
        return secret_of_pydantic(wanted, value)
    if hasattr(wanted, "model_validate_json"):
        return wanted.model_validate_json(msgspec.json.encode(value))
    raise ValueError(f"a {getattr(wanted, '__name__', wanted)} cannot be made from JSON")
