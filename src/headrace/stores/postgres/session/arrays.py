"""Sends lists as binary arrays. psycopg builds arrays item by item, which took most of a client's time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from psycopg import postgres
from psycopg.abc import DumperKey, PyFormat
from psycopg.adapt import Dumper
from psycopg.pq import Format

#: One dimension, whether there are NULLs, the type of the items, how many, the index of the first.
_HEADER: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i").pack
_NULL: Final = _LENGTH(-1)
_FLOAT: Final = struct.Struct("!d").pack
_INTEGER: Final = struct.Struct("!iq").pack


def _boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


#: For each type of items: its name on the server, and the bytes of an item.
ITEMS: Final[dict[type, tuple[str, Callable[[Any], bytes]]]] = {
    str: ("text", str.encode),
    bytes: ("bytea", bytes),
    bool: ("bool", _boolean),
    float: ("float8", _FLOAT),
}


class TidList(list[bytes]):
    """The places of rows, as the server has sent them."""


class IntegerArrayDumper(Dumper):
    """Arrays of numbers are most of what is sent."""

    format = Format.BINARY
    oid = postgres.types["int8"].array_oid

    def dump(self, obj: list[Any]) -> bytes:
        header = _HEADER.pack(1, None in obj, postgres.types["int8"].oid, len(obj), 1)
        return header + b"".join([_NULL if item is None else _INTEGER(8, item) for item in obj])


class ListDumper(Dumper):
    """Chooses the dumper for the items of a list."""

    format = Format.TEXT

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:
        return (list, (_type_of(obj),))

    def upgrade(self, obj: list[Any], format: PyFormat) -> Dumper:
        return DUMPERS[_type_of(obj)](list)

    def dump(self, obj: list[Any]) -> bytes:
        """A list without items, or with NULLs only: it fits an array of any type."""
        return b"{" + b",".join([b"NULL"] * len(obj)) + b"}"


def _type_of(items: list[Any]) -> type:
    for item in items:
        if item is not None:
            return type(item)
    return type(None)


def _dumper_for(name: str, encode: Callable[[Any], bytes]) -> type[Dumper]:
    info = postgres.types[name]

    class ArrayDumper(Dumper):
        format = Format.BINARY
        oid = info.array_oid

        def dump(self, obj: list[Any]) -> bytes:
            encoded = (
                [None if item is None else encode(item) for item in obj]
                if None in obj
                else [*map(encode, obj)]
            )
            return _array(info.oid, encoded)

    return ArrayDumper


def _array(oid: int, encoded: Sequence[bytes | None]) -> bytes:
    header = _HEADER.pack(1, None in encoded, oid, len(encoded), 1)
    lengths = {None if item is None else len(item) for item in encoded}
    if len(lengths) == 1 and (length := lengths.pop()) is not None:
        before = _LENGTH(length)
        return header + before + before.join(encoded)  # type: ignore[arg-type]
    items = [_NULL if item is None else _LENGTH(len(item)) + item for item in encoded]
    return header + b"".join(items)


DUMPERS: Final[dict[type, type[Dumper]]] = {
    type(None): ListDumper,
    **{kind: _dumper_for(name, encode) for kind, (name, encode) in ITEMS.items()},
    int: IntegerArrayDumper,
}

TidListDumper: Final = _dumper_for("tid", bytes)
