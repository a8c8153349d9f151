"""Turns pydantic's models into plain data, and back. Nothing here needs pydantic to be installed.

The values of the fields themselves are sent, under the names that validation reads. Serializers, `exclude`
and aliases for output are not used: they are for other readers, and leave out or mask values. Private
attributes are not sent.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, get_args, get_type_hints
from uuid import UUID

import msgspec

from headrace.core.values.secret import Secret

#: Makes an extension of a secret.
SealSecret = Callable[[Any], Any]

#: Types that MessagePack knows, or that msgspec writes as text which pydantic reads again.
_PLAIN = (str, int, float, bool, bytes, type(None), Decimal, UUID, date, time, timedelta)


def is_model(wanted: Any) -> bool:
    """Whether a type is one of pydantic's models."""
    return isinstance(wanted, type) and hasattr(wanted, "model_validate") and hasattr(wanted, "model_fields")


def is_secret_of_pydantic(wanted: Any) -> bool:
    """Whether a type is `SecretStr` or another secret type of pydantic."""
    return hasattr(wanted, "get_secret_value")


@lru_cache(maxsize=1000)
def holds_secrets(wanted: type) -> bool:
    """Whether an object of this class may have a secret in it, at any depth of its fields."""
    return _mentions_secret(wanted, set())


def _mentions_secret(wanted: Any, seen: set[int]) -> bool:
    if id(wanted) in seen:
        return False
    seen.add(id(wanted))  # types may hold themselves
    if isinstance(wanted, type) and (issubclass(wanted, Secret) or is_secret_of_pydantic(wanted)):
        return True
    parts = (*get_args(wanted), getattr(wanted, "__origin__", None), *_fields_of(wanted))
    return any(_mentions_secret(part, seen) for part in parts)


def _fields_of(wanted: Any) -> list[Any]:
    """The types of the fields of a class."""
    if is_model(wanted):
        return [field.annotation for field in wanted.model_fields.values()]
    if not isinstance(wanted, type) or not getattr(wanted, "__annotations__", None):
        return []
    try:
        return list(get_type_hints(wanted).values())
    except (NameError, TypeError, SyntaxError):
        return []


# --- out --------------------------------------------------------------------------------------------------


class Reducer:
    """Turns models into data that can be encoded, and from which `validated` makes equal models.

    `seal` makes an extension of a secret. With `in_order` mappings and sets are sorted: equal models give
    equal data.
    """

    def __init__(self, seal: SealSecret, *, in_order: bool = False) -> None:
        self._seal = seal
        self.in_order = in_order

    def data_of(self, model: Any) -> Any:
        """The values of its fields, under the names that validation reads."""
        kind = type(model)
        if getattr(kind, "__pydantic_root_model__", False):
            return self._data(model.root)
        by_alias = kind.model_config.get("validate_by_alias", True)
        values = model.__dict__
        data = {
            _read_as(name, field) if by_alias else name: self._data(values[name])
            for name, field in kind.model_fields.items()
            if name in values
        }
        return data | self._mapping(model.__pydantic_extra__ or {})

    def _data(self, value: Any) -> Any:
        kind = type(value)
        if kind is datetime:  # as it is in UTC, else as text, which keeps its offset
            return value if value.utcoffset() == timedelta() else value.isoformat()
        if kind in _PLAIN:
            return value
        if isinstance(value, enum.Enum):
            return self._data(value.value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple | deque):
            return [self._data(each) for each in value]
        if isinstance(value, set | frozenset):
            items = [self._data(each) for each in value]
            return sorted(items, key=msgspec.msgpack.encode) if self.in_order else items
        return self._object(value, kind)

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        data = {self._data(key): self._data(each) for key, each in value.items()}
        if not self.in_order:
            return data
        return {key: data[key] for key in sorted(data, key=msgspec.msgpack.encode)}

    def _object(self, value: Any, kind: type) -> Any:
        if isinstance(value, Secret) or is_secret_of_pydantic(kind):
            return self._seal(value)
        if is_model(kind):
            return self.data_of(value)
        if dataclasses.is_dataclass(kind):
            return {each.name: self._data(getattr(value, each.name)) for each in dataclasses.fields(kind)}
        return _jsonable(value)


def _read_as(name: str, field: Any) -> str:
    """The name under which validation looks for a field."""
    alias = field.validation_alias
    choices = getattr(alias, "choices", (alias,))
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _jsonable(value: Any) -> Any:
    """The text of addresses, paths, URLs and all other types that pydantic writes as text."""
    from pydantic_core import to_jsonable_python  # a process that has a model has pydantic

    try:
        return to_jsonable_python(value)
    except ValueError:
        raise NotImplementedError(f"{type(value).__name__} objects cannot be sent") from None


# --- back -------------------------------------------------------------------------------------------------


def validated(wanted: Any, value: Any) -> Any:
    """The model that was sent as this value."""
    plain = _revealed(value) if holds_secrets(wanted) else value
    try:
        # Never strict, even if the model is: dates and enumerations are sent as text.
        return wanted.model_validate(plain, strict=False)
    except ValueError as error:
        try:
            return wanted.model_validate_json(msgspec.json.encode(plain))
        except Exception:
            raise _unquoted(error) from None


def secret_of_pydantic(wanted: Any, value: Any) -> Any:
    """A `SecretStr` or another secret of pydantic, from a secret that was sent or a plain value."""
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(wanted).validate_python(_revealed(value), strict=False)
    except ValueError:
        raise ValueError(f"The value is no `{getattr(wanted, '__name__', wanted)}`") from None


def _revealed(value: Any) -> Any:
    """The value with plain values in place of secrets."""
    if isinstance(value, Secret):
        return _revealed(value.reveal())
    if isinstance(value, dict):
        return {key: _revealed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_revealed(each) for each in value]
    return value


def _unquoted(error: ValueError) -> ValueError:
    """The text of a `ValidationError` in one line, without the input, which may be secret."""
    details = error.errors(include_input=False, include_url=False) if hasattr(error, "errors") else []
    problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in details]
    return ValueError("; ".join(problems) or "it does not fit")


# --- the comparison ---------------------------------------------------------------------------------------


def difference(sent: Any, arrived: Any, place: str = "") -> str | None:
    """The place where the two differ; None: they are equal. Empty: they differ as a whole."""
    if is_model(type(sent)):
        if type(sent) is not type(arrived):
            return place
        mine, others = ({**each.__dict__, **(each.__pydantic_extra__ or {})} for each in (sent, arrived))
        names = {*type(sent).model_fields, *(sent.__pydantic_extra__ or {})}
        return _first_difference({name: (mine.get(name), others.get(name)) for name in names}, place)
    if isinstance(sent, Mapping) and isinstance(arrived, Mapping) and sent.keys() == arrived.keys():
        return _first_difference({key: (sent[key], arrived[key]) for key in sent}, place)
    if isinstance(sent, list | tuple | deque) and type(sent) is type(arrived) and len(sent) == len(arrived):
        return _first_difference(dict(enumerate(zip(sent, arrived, strict=True))), place)
    same = sent == arrived or (sent != sent and arrived != arrived)
    return None if same else place


def other_kind(sent: Any, arrived: Any) -> str | None:
    """Says which model that was sent arrives as one of another class, as a subclass does when its base class
    is declared; None: no model does."""
    if is_model(type(sent)):
        changed = is_model(type(arrived)) and type(sent) is not type(arrived)
        return f"a {type(sent).__name__} would arrive as a {type(arrived).__name__}" if changed else None
    if isinstance(sent, Mapping) and isinstance(arrived, Mapping):
        pairs = [(sent[key], arrived[key]) for key in sent.keys() & arrived.keys()]
    elif isinstance(sent, list | tuple) and isinstance(arrived, list | tuple):
        pairs = list(zip(sent, arrived, strict=False))
    else:
        return None
    return next((found for pair in pairs if (found := other_kind(*pair)) is not None), None)


def _first_difference(pairs: Mapping[Any, tuple[Any, Any]], place: str) -> str | None:
    for name, (sent, arrived) in pairs.items():
        found = difference(sent, arrived, f"{place}.{name}" if place else str(name))
        if found is not None:
            return found
    return None
