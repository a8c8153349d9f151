"""Bytes and texts that another program could hand to headrace."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

#: A few examples at each commit, the same ones each time.
SHORT_FORM = settings(max_examples=30)

#: The long form, for `make test-more`: many times the examples of a commit, other ones each time.
LONG_FORM = settings(max_examples=1_000, derandomize=False, deadline=None)

#: Bounds for one input: seconds of this process, and bytes. They are generous: a busy machine is slow.
SECONDS, BYTES = 3.0, 64 * 1024 * 1024

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)

#: Anything that MessagePack can hold.
values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=15), st.dictionaries(st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)


def encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


#: Short bytes that promise much: long arrays, maps, texts and extensions, and deep nesting.
bombs = st.sampled_from(
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x53",
        b"\xdd\x7f\xff\xff\xff\xc0\xc0",
        b"\x91" * 100_000,
        b"\x81\xa1a" * 50_000,
        b"\x97\x01\xa1a\xa1t\x00\xc0\xc0" + b"\x91" * 60_000,
        b"\x97\x01\xa1a\xa1t\x00\xdf\xff\xff\xff\xff",
        b"\xc7\x00\x53",
        b"\xd4\xff\x00",
        b"\xc1",
        b"",
    ]
)


@st.composite
def changed(draw: st.DrawFn, genuine: Callable[[st.DrawFn], bytes]) -> bytes:
    """Genuine bytes with some of them replaced, removed or added."""
    data = bytearray(genuine(draw))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "cut", "add", "splice"])):
            case "flip" if data:
                data[place] ^= draw(st.integers(1, 255))
            case "cut":
                del data[place : place + draw(st.integers(1, 20))]
            case "add":
                data[place:place] = draw(st.binary(min_size=1, max_size=10))
            case _:
                data[place:place] = draw(bombs)[:100]
    return bytes(data)


@contextmanager
def bounded() -> Iterator[None]:
    """Neither much time nor much memory is used inside."""
    tracemalloc.start()
    began = process_time()
    try:
        yield
        spent, peak = process_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert spent < SECONDS, f"it took {spent:.1f} s"
    assert peak < BYTES, f"it took {peak:,} bytes"


def fuzz(check: Callable[..., None], **inputs: st.SearchStrategy[Any]) -> tuple[Any, Any]:
    """The test of a property in its short form, and in its long form, which `-m more` runs."""
    short, long = SHORT_FORM(given(**inputs)(check)), LONG_FORM(given(**inputs)(check))
    return short, pytest.mark.more(pytest.mark.timeout(600)(long))
