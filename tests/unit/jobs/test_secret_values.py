"""Secret[T] as a value, and on its way through bytes."""

from __future__ import annotations

import copy
import enum
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from headrace import InvalidPayload, Secret
from headrace.core.encoding.encoding import holds_secrets
from headrace.core.values.secret import SECRET_CODE, masked
from headrace.jobs.payload.arguments import Arguments

WORD = "swordfish"


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Login:
    user: str
    password: Secret[str]
    before: Login | None = None


class Customer(msgspec.Struct):
    name: str


class Card(pydantic.BaseModel):
    number: int


def through(function: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as they arrive, with nothing secret to be read by who only shows them."""
    arguments = Arguments(function, {})
    payload = arguments.encode(args, kwargs)
    assert WORD not in repr(msgspec.msgpack.decode(payload, ext_hook=masked))
    return arguments.decode(payload)


def test_no_text_made_of_it_shows_it() -> None:
    secret = Secret(WORD)
    texts = [repr(secret), str(secret), f"{secret}", f"{secret:>40}", "%s" % secret, repr([secret])]  # noqa: UP031
    assert all("***" in text and WORD not in text for text in texts)
    assert secret.reveal() == WORD


def test_it_is_compared_by_value_and_only_with_its_like() -> None:
    assert Secret(WORD) == Secret(WORD) != Secret("other")
    assert {Secret(WORD), Secret(WORD)} == {Secret(WORD)}
    assert Secret(WORD) != WORD


def test_it_cannot_be_changed_but_copied() -> None:
    secret = Secret([1])
    with pytest.raises(AttributeError, match="cannot be changed"):
        secret._value = [2]
    with pytest.raises(AttributeError, match="cannot be changed"):
        del secret._value
    assert copy.copy(secret) == copy.deepcopy(secret) == secret
    assert asdict(Login("ada", Secret(WORD)))["password"] == Secret(WORD)
    assert Secret[str](WORD) == Secret(WORD)


@pytest.mark.parametrize("given", [WORD, Secret(WORD)])
def test_a_parameter_takes_a_plain_value_and_a_secret(given: Any) -> None:
    def login(user: str, password: Secret[str], *, again: Secret[str] | None = None) -> None: ...

    assert through(login, "ada", given) == (("ada", Secret(WORD)), {})
    assert through(login, "ada", given, again=given) == (("ada", Secret(WORD)), {"again": Secret(WORD)})


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (str, WORD),
        (int, 7),
        (bytes, b"\x00\xff"),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC)),
        (UUID, UUID(int=5)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (Customer, Customer(WORD)),
        (Card, Card(number=5)),
        (list[Customer], [Customer(WORD)]),
        (dict[int, str], {1: WORD}),
        (Any, {"a": [1]}),
    ],
)
def test_the_value_arrives_in_its_type(wanted: Any, value: Any) -> None:
    def take(secret: Any) -> None: ...

    take.__annotations__["secret"] = Secret[wanted]
    assert through(take, Secret(value)) == ((Secret(value),), {})
    assert through(take, value) == ((Secret(value),), {})


def test_they_may_be_nested() -> None:
    def take(many: list[Secret[str]], named: dict[str, Secret[int]], login: Login) -> None: ...

    login = Login("ada", Secret(WORD), before=Login("bob", Secret(WORD)))
    args, _ = through(take, [WORD, Secret(WORD)], {"pin": 7}, login)
    assert args == ([Secret(WORD), Secret(WORD)], {"pin": Secret(7)}, login)


def test_a_plain_value_in_a_field_is_masked_too() -> None:
    def take(login: Login) -> None: ...

    careless = Login("ada", WORD)  # type: ignore[arg-type]
    assert through(take, careless) == ((Login("ada", Secret(WORD)),), {})


def test_without_an_annotation_a_secret_stays_one() -> None:
    def take(anything, *rest: Any, **named: Secret[str]) -> None: ...  # type: ignore[no-untyped-def]

    assert through(take, Secret(WORD), [Secret(WORD)], token=WORD) == (
        (Secret(WORD), [Secret(WORD)]),
        {"token": Secret(WORD)},
    )


def test_a_bare_secret_holds_anything() -> None:
    def take(secret: Secret) -> None: ...  # type: ignore[type-arg]

    assert through(take, [WORD, 1]) == ((Secret([WORD, 1]),), {})


@pytest.mark.parametrize("wanted", [int, Colour, Card, Decimal])
def test_what_does_not_fit_is_refused_and_not_quoted(wanted: Any) -> None:
    def take(secret: Any) -> None: ...

    take.__annotations__["secret"] = Secret[wanted]
    with pytest.raises(InvalidPayload) as refused:
        Arguments(take, {}).encode((WORD,), {})
    assert f"The value of a Secret is no `{wanted.__name__}` - at `secret`" in str(refused.value)
    chain: BaseException | None = refused.value
    while chain is not None:
        assert WORD not in str(chain)
        chain = chain.__cause__


def test_what_cannot_be_sent_is_not_quoted() -> None:
    def take(secret: Secret[object]) -> None: ...

    class Odd:
        def __repr__(self) -> str:
            return WORD

    with pytest.raises(InvalidPayload, match="the value of a Secret cannot be sent") as refused:
        Arguments(take, {}).encode((Secret(Odd()),), {})
    assert WORD not in str(refused.value)


def test_a_secret_is_no_plain_value() -> None:
    def take(word: str) -> None: ...

    arguments = Arguments(take, {})
    with pytest.raises(InvalidPayload, match="Expected `str`, got `ext`"):
        arguments.decode(arguments.encode((Secret(WORD),), {}))


def test_equal_secrets_have_equal_bytes_where_the_order_counts() -> None:
    def take(secret: Secret[dict[str, int]]) -> None: ...

    arguments = Arguments(take, {})
    one = arguments.encode(({"a": 1, "b": 2},), {}, ordered=True)
    other = arguments.encode((Secret({"b": 2, "a": 1}),), {}, ordered=True)
    assert one == other


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [(int, False), (Customer, False), (Card, False), (Any, False), (Login, True), (list[Login], True)],
)
def test_a_type_knows_whether_it_holds_secrets(wanted: Any, holds: bool) -> None:
    assert holds_secrets(wanted) is holds


def test_other_extensions_are_left_as_they_are() -> None:
    data = msgspec.msgpack.encode([msgspec.msgpack.Ext(5, b"x"), msgspec.msgpack.Ext(SECRET_CODE, b"\xa1y")])
    assert msgspec.msgpack.decode(data, ext_hook=masked) == [msgspec.msgpack.Ext(5, b"x"), "***"]
