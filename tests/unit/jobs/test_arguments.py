"""Arguments: anything that can be written down arrives as the annotated type, and nothing else arrives."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigurationError, InvalidPayload
from headrace.jobs.payload.arguments import Arguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    street: str
    number: int = 1
    tags: list[str] = field(default_factory=list)


class Customer(msgspec.Struct):
    name: str
    address: Address | None = None


class Order(TypedDict):
    id: int
    customer: Customer


class Point(NamedTuple):
    x: float
    y: float


class Invoice(pydantic.BaseModel):
    id: UUID
    total: Decimal
    due: date
    lines: list[str] = []


class Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    customer_id: int = pydantic.Field(alias="customerId")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.customer_id


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    at: datetime
    colour: Colour


class Explosive(msgspec.Struct):
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("it must not be negative")


def arguments(function: Callable[..., Any], **local_names: Any) -> Arguments:
    return Arguments(function, local_names)


def arrive(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the function is called with after the way through the store."""
    codec = arguments(function)
    return codec.decode(codec.encode(args, kwargs))


# --- types ---------------------------------------------------------------------------------------------

ADDRESS = Address("High Street", 7, ["home"])
CUSTOMER = Customer("Ada", ADDRESS)

VALUES = {
    "int": (int, 7),
    "float": (float, 1.5),
    "str": (str, "grüße 🎉"),
    "bool": (bool, True),
    "none": (type(None), None),
    "bytes": (bytes, b"\x00\xff"),
    "dataclass": (Address, ADDRESS),
    "struct": (Customer, CUSTOMER),
    "typed dict": (Order, {"id": 3, "customer": CUSTOMER}),
    "named tuple": (Point, Point(1.0, 2.0)),
    "enum": (Colour, Colour.BLUE),
    "int enum": (Level, Level.HIGH),
    "literal": (Literal["a", "b"], "a"),
    "aware datetime": (datetime, datetime(2030, 1, 2, 3, 4, 5, 678, UTC)),
    "naive datetime": (datetime, datetime(2030, 1, 2, 3, 4, 5)),
    "date": (date, date(2030, 1, 2)),
    "time": (time, time(3, 4, 5)),
    "timedelta": (timedelta, timedelta(days=1, microseconds=5)),
    "uuid": (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    "decimal": (Decimal, Decimal("10.10")),
    "optional": (int | None, None),
    "union": (int | str, "seven"),
    "list": (list[Address], [ADDRESS, ADDRESS]),
    "dict": (dict[str, list[Colour]], {"a": [Colour.RED]}),
    "int keys": (dict[int, str], {1: "one"}),
    "set": (set[int], {1, 2, 3}),
    "frozenset": (frozenset[str], frozenset({"a"})),
    "fixed tuple": (tuple[int, str], (1, "a")),
    "long tuple": (tuple[int, ...], (1, 2, 3)),
    "constrained": (Annotated[int, msgspec.Meta(ge=0)], 5),
    "pydantic": (Invoice, Invoice(id=UUID(int=1), total=Decimal("1.10"), due=date(2030, 1, 2), lines=["a"])),
    "optional pydantic": (Invoice | None, None),
    "many pydantic": (list[Camel], [Camel(customerId=1), Camel(customerId=2)]),
    "pydantic by alias": (Camel, Camel(customerId=3)),
    "strict pydantic": (Strict, Strict(at=datetime(2030, 1, 2, tzinfo=UTC), colour=Colour.RED)),
    "object": (object, [1, "two"]),
    "many objects": (dict[str, object], {"a": 1, "b": "two"}),
    "anything": (Any, {"a": [1, 2.5, None, "b"]}),
}


@pytest.mark.parametrize(("annotation", "value"), VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("how", ["by position", "by name"])
def test_a_value_arrives_as_its_annotated_type(annotation: Any, value: Any, how: str) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    args, kwargs = arrive(function, value) if how == "by position" else arrive(function, value=value)
    (arrived,) = [*args, *kwargs.values()]
    assert arrived == value
    assert type(arrived) is type(value)


def test_without_an_annotation_plain_data_arrives() -> None:
    def function(a, b=None): ...  # type: ignore[no-untyped-def]

    assert arrive(function, ADDRESS, (1, 2)) == (
        ({"street": "High Street", "number": 7, "tags": ["home"]}, [1, 2]),
        {},
    )


def test_annotations_may_be_text_and_name_local_types() -> None:
    @dataclass
    class Local:
        value: int

    def function(one: Local, many: list[Local]) -> None: ...

    codec = arguments(function, Local=Local)
    assert codec.decode(codec.encode((Local(1), [Local(2)]), {})) == ((Local(1), [Local(2)]), {})


def test_an_annotation_that_cannot_be_resolved_is_a_configuration_error() -> None:
    def function(value: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match="NoSuchType"):
        arguments(function).resolve()


def test_a_type_that_no_message_can_hold_is_a_configuration_error() -> None:
    def function(value: int | Invoice | Camel) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot be sent"):
        arguments(function).resolve()


# --- parameters ----------------------------------------------------------------------------------------


def plain(a: int, b: int = 2, c: str = "c") -> None: ...
def keyword_only(a: int, *, b: int, c: int = 3) -> None: ...
def optional_keywords(a: int, *, b: int = 2) -> None: ...
def variadic(a: int, *rest: Colour) -> None: ...
def open_keywords(a: int, **extra: Colour) -> None: ...
def everything(a: int, /, b: int, *rest: int, c: int, **extra: int) -> None: ...
def nothing() -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (nothing, (), {}, ((), {})),
        (plain, (1,), {}, ((1,), {})),
        (plain, (1, 5), {}, ((1, 5), {})),
        (plain, (1, 5, "x"), {}, ((1, 5, "x"), {})),
        (plain, (), {"a": 1}, ((1,), {})),
        (plain, (1,), {"c": "x"}, ((1,), {"c": "x"})),
        (plain, (), {"b": 5, "a": 1}, ((1, 5), {})),
        (keyword_only, (1,), {"b": 2}, ((1,), {"b": 2})),
        (keyword_only, (), {"a": 1, "b": 2, "c": 4}, ((1,), {"b": 2, "c": 4})),
        (optional_keywords, (1,), {}, ((1,), {})),
        (optional_keywords, (1,), {"b": 5}, ((1,), {"b": 5})),
        (variadic, (1,), {}, ((1,), {})),
        (variadic, (1, Colour.RED, Colour.BLUE), {}, ((1, Colour.RED, Colour.BLUE), {})),
        (open_keywords, (1,), {"x": Colour.RED}, ((1,), {"x": Colour.RED})),
        (everything, (1, 2, 3, 4), {"c": 5, "d": 6}, ((1, 2, 3, 4), {"c": 5, "d": 6})),
        (everything, (1,), {"b": 2, "c": 5}, ((1, 2), {"c": 5})),
        (everything, (1,), {"b": 2, "c": 5, "a": 9}, ((1, 2), {"c": 5, "a": 9})),
        (everything, (1, 2), {"c": 5, "rest": 9, "extra": 8}, ((1, 2), {"c": 5, "rest": 9, "extra": 8})),
    ],
)
def test_arguments_arrive_at_their_parameters(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], expected: object
) -> None:
    assert arrive(function, *args, **kwargs) == expected
    function(*args, **kwargs)


def test_a_default_is_the_workers_own_and_never_sent() -> None:
    codec = arguments(plain)
    assert codec.encode((1,), {}) == msgspec.msgpack.encode([[1]])


def test_a_call_spelled_otherwise_gives_the_same_bytes() -> None:
    codec = arguments(plain)
    assert codec.encode((), {"b": 5, "a": 1}) == codec.encode((1, 5), {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "complaint"),
    [
        (plain, (), {}, "missing a required argument: 'a'"),
        (plain, (1, 2, "c", 4), {}, "too many positional arguments"),
        (plain, (1,), {"x": 1}, "unexpected keyword argument 'x'"),
        (plain, (1,), {"a": 1}, "multiple values for argument 'a'"),
        (keyword_only, (1, 2), {}, "too many positional arguments"),
        (keyword_only, (1,), {}, "missing a required.* 'b'"),
        (nothing, (1,), {}, "too many positional arguments"),
    ],
)
def test_arguments_that_do_not_fit_the_parameters_are_refused_when_enqueued(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidPayload, match=complaint) as refused:
        arguments(function).encode(args, kwargs)
    assert function.__qualname__ in str(refused.value)


@pytest.mark.parametrize("value", [object(), lambda: None, math, {1: object()}, 2**70, Ellipsis])
def test_a_value_that_cannot_be_sent_is_refused_when_enqueued(value: object) -> None:
    def function(value: Any) -> None: ...

    with pytest.raises(InvalidPayload, match="function: the value cannot be sent"):
        arguments(function).encode((value,), {})


def test_a_value_nested_too_deeply_is_refused_when_enqueued() -> None:
    def function(value: Any) -> None: ...

    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidPayload, match="nested too deeply"):
        arguments(function).encode((nested,), {})


# --- what arrives and does not fit ---------------------------------------------------------------------


def sent(*args: Any, **kwargs: Any) -> bytes:
    """A payload as a producer with another idea of the task would write it."""
    return msgspec.msgpack.encode([args, kwargs] if kwargs else [args])


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (plain, sent("one")),
        (plain, sent(1, "two")),
        (plain, sent()),
        (plain, sent(1, 2, "c", 4)),
        (plain, sent(1, x=2)),
        (plain, sent(a="one")),
        (plain, sent(1, a=1)),
        (plain, b""),
        (plain, b"\x91"),
        (plain, b"\xc1"),
        (plain, msgspec.msgpack.encode({"a": 1})),
        (plain, msgspec.msgpack.encode([])),
        (plain, msgspec.msgpack.encode([[1], {"b": 1}, "x"])),
        (plain, msgspec.msgpack.encode([{"a": 1}])),
        (keyword_only, sent(1)),
        (keyword_only, sent(1, b="two")),
        (variadic, sent(1, "green")),
        (open_keywords, sent(1, x="green")),
        (nothing, sent(1)),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_on_arrival(
    function: Callable[..., Any], payload: bytes
) -> None:
    with pytest.raises(InvalidPayload, match=f"the arguments do not fit {function.__name__}"):
        arguments(function).decode(payload)


@pytest.mark.parametrize("payload", [sent(1, "two"), sent(a=1, b="two"), sent(1, b="two")])
def test_the_refusal_names_the_parameter(payload: bytes) -> None:
    with pytest.raises(InvalidPayload, match=r"`int`, got `str`.*b") as refused:
        arguments(plain).decode(payload)
    assert "`b`" in str(refused.value)


def test_the_refusal_shows_the_way_into_a_nested_value() -> None:
    def function(first: int, customer: Customer) -> None: ...

    payload = sent(1, {"name": "Ada", "address": {"street": "High Street", "number": "seven"}})
    with pytest.raises(InvalidPayload, match=r"at `customer\.address\.number`"):
        arguments(function).decode(payload)


def test_what_a_constructor_refuses_is_refused_with_its_words() -> None:
    def function(value: Explosive) -> None: ...

    with pytest.raises(InvalidPayload, match="it must not be negative"):
        arguments(function).decode(sent({"value": -1}))


def test_what_pydantic_refuses_is_refused_with_its_words() -> None:
    def function(invoice: Invoice) -> None: ...

    with pytest.raises(InvalidPayload, match="total"):
        arguments(function).decode(sent({"id": str(UUID(int=1)), "total": "much", "due": "2030-01-02"}))


def test_hostile_nesting_is_refused() -> None:
    def function(value: Any) -> None: ...

    with pytest.raises(InvalidPayload):
        arguments(function).decode(b"\x91\x91" + b"\x91" * 100_000 + b"\x01")


@given(st.binary(max_size=40))
def test_no_bytes_at_all_raise_anything_else(payload: bytes) -> None:
    for function in (plain, everything, open_keywords):
        codec = arguments(function)
        try:
            args, kwargs = codec.decode(payload)
        except InvalidPayload:
            continue
        function(*args, **kwargs)


# --- anything at all -----------------------------------------------------------------------------------

plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
customers = st.builds(
    Customer,
    st.text(max_size=5),
    st.none() | st.builds(Address, st.text(max_size=5), st.integers(0, 99), st.lists(st.text(max_size=3))),
)


@given(value=plain_data, by_name=st.booleans())
def test_plain_data_of_any_shape_arrives_unchanged(value: Any, by_name: bool) -> None:
    def function(*, first: Any = 0, value: Any) -> None: ...
    def positional(value: Any) -> None: ...

    if by_name:
        assert arrive(function, value=value) == ((), {"value": value})
    else:
        assert arrive(positional, value) == ((value,), {})


@given(customers=st.lists(customers, max_size=3), at=st.datetimes(timezones=st.just(UTC)), key=st.uuids())
def test_typed_values_of_any_content_arrive_unchanged(
    customers: list[Customer], at: datetime, key: UUID
) -> None:
    def function(customers: list[Customer], at: datetime, *, key: UUID | None = None) -> None: ...

    assert arrive(function, customers, at, key=key) == ((customers, at), {"key": key})
