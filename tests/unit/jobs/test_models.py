"""Pydantic's models on their way through bytes: they arrive as they were sent, or are refused when sent."""

from __future__ import annotations

import enum
import hashlib
import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretBytes, SecretStr
from pydantic.alias_generators import to_camel

from headrace import InvalidPayload, Secret
from headrace.core.values.secret import masked
from headrace.jobs.payload.arguments import Arguments

T = TypeVar("T")
WORD = "swordfish"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2


class Pair(NamedTuple):
    x: int
    y: str


@dataclass
class Address:
    street: str
    at: datetime


class Plain(BaseModel):
    data: bytes
    uuid: UUID
    total: Decimal
    day: date
    moment: datetime
    naive: datetime
    hour: time
    span: timedelta
    colour: Colour
    level: Level
    numbers: set[int]
    words: frozenset[str]
    pair: tuple[int, str]
    named: Pair
    path: Path
    host: IPv4Address
    url: pydantic.HttpUrl
    address: Address
    queue: deque[int]
    by_number: dict[int, Decimal]
    nothing: None
    maybe: int | str
    late: datetime | str
    nan: float
    anything: Any


PLAIN = Plain(
    data=b"\x00\xff",
    uuid=UUID(int=7),
    total=Decimal("1.10"),
    day=date(2030, 1, 2),
    moment=datetime.fromisoformat("2030-01-02T10:00+02:00"),
    naive=datetime(2030, 1, 2, 3),
    hour=time(3, 4),
    span=timedelta(days=1, microseconds=5),
    colour=Colour.RED,
    level=Level.HIGH,
    numbers={1, 2},
    words=frozenset({"a"}),
    pair=(1, "a"),
    named=Pair(1, "b"),
    path=Path("/tmp/x"),
    host=IPv4Address("127.0.0.1"),
    url=pydantic.HttpUrl("https://example.org/a"),
    address=Address("High Street", datetime(2030, 1, 2, tzinfo=UTC)),
    queue=deque([1, 2]),
    by_number={1: Decimal("2.0")},
    nothing=None,
    maybe="7",
    late=datetime(2030, 1, 2, tzinfo=UTC),
    nan=float("nan"),
    anything={"a": [1, b"\xff", None]},
)

#: Pydantic makes time zones of its own.
REPR = repr(PLAIN).replace("datetime.timezone(datetime.timedelta(seconds=7200))", "TzInfo(7200)")


class Alias(BaseModel):
    customer_id: int = Field(alias="customerId")
    street: str = Field(validation_alias="road", serialization_alias="way")
    either: int = Field(validation_alias=pydantic.AliasChoices("one", "other"))


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    customer_id: int


class Hidden(BaseModel):
    kept: int = 1
    excluded: int = Field(default=2, exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.kept


class Rounded(BaseModel):
    value: float

    @pydantic.field_serializer("value")
    def _round(self, value: float) -> int:
        return round(value)


class Whole(BaseModel):
    value: int

    @pydantic.model_serializer
    def _as_text(self) -> str:
        return f"whole {self.value}"


class Foreign:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Foreign) and other.value == self.value


class Adopted(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    foreign: Annotated[
        Foreign,
        pydantic.BeforeValidator(lambda value: Foreign(value) if isinstance(value, int) else value),
        pydantic.PlainSerializer(lambda foreign: foreign.value),
    ]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    others: list[Cat | Dog] = []
    friend: Owner | None = None


class Box(BaseModel, Generic[T]):
    content: T


class Many(RootModel[list[Cat]]):
    pass


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)
    at: datetime
    colour: Colour
    secret: SecretStr


class Stamped(BaseModel):
    id: UUID = Field(default_factory=lambda: UUID(int=9))
    _cache: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)


class Account(BaseModel):
    user: str
    password: SecretStr
    key: SecretBytes
    pin: pydantic.Secret[int]
    token: Secret[str]
    many: list[Secret[int]] = []
    within: dict[str, SecretStr] = {}


ACCOUNT = Account(
    user="ada",
    password=SecretStr(WORD),
    key=SecretBytes(WORD.encode() + b"\xff"),
    pin=pydantic.Secret[int](7),
    token=Secret(WORD),
    many=[Secret(7)],
    within={"a": SecretStr(WORD)},
)


@dataclass
class Login:
    password: SecretStr


class Talkative(BaseModel):
    login: Login

    @pydantic.field_serializer("login")
    def _tell(self, login: Login) -> dict[str, str]:
        return {"password": login.password.get_secret_value()}


class Derived(Cat):
    tail: bool = True


class Holder(BaseModel):
    pet: Cat


class Hashed(BaseModel):
    password: str

    @pydantic.field_validator("password")
    @classmethod
    def _hash(cls, value: str) -> str:
        return hashlib.sha256(value.encode()).hexdigest()


class Nested(BaseModel):
    name: str = Field(validation_alias=pydantic.AliasPath("person", "name"))


class Strange(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    value: object


VALUES: dict[str, BaseModel] = {
    "every type": PLAIN,
    "aliases": Alias.model_validate({"customerId": 1, "road": "High Street", "one": 3}),
    "generated aliases": Generated(customer_id=1),
    "excluded": Hidden(kept=3, excluded=4),
    "field serializer": Rounded(value=1.5),
    "model serializer": Whole(value=3),
    "a type that its serializer knows": Adopted(foreign=Foreign(7)),
    "extra fields": Open(name="a", more=[1], also=b"\xff"),  # type: ignore[call-arg]
    "discriminated": Owner(pet=Dog(name="rex"), others=[Cat(lives=9)], friend=Owner(pet=Cat(lives=1))),
    "generic": Box[Box[date]](content=Box[date](content=date(2030, 1, 2))),
    "root": Many([Cat(lives=1)]),
    "strict and frozen": Frozen(
        at=datetime(2030, 1, 2, tzinfo=UTC), colour=Colour.RED, secret=SecretStr("x")
    ),
    "a default made anew": Stamped(id=UUID(int=3)),
    "secrets": ACCOUNT,
    "a secret that nobody names": Box[Any](content=Secret(WORD)),
    "a secret that its serializer tells": Talkative(login=Login(SecretStr(WORD))),
    "a secret in a generic": Box[SecretStr](content=SecretStr(WORD)),
}

REFUSED: dict[str, tuple[BaseModel, str]] = {
    "a subclass": (Holder(pet=Derived(lives=1)), "pet"),
    "a type that nobody names": (Box[Any](content=Decimal("1.10")), "content"),
    "a tuple that nobody names": (Box[Any](content={"a": (1, 2)}), "content.a"),
    "what a validator changes": (Hashed(password=WORD), "password"),
    "a path of aliases": (Nested.model_validate({"person": {"name": "a"}}), "name"),
    "an arbitrary object": (Strange(value=object()), "object"),
    "a secret that nobody names": (Box[Any](content=SecretStr(WORD)), "content"),
    "what was never valid": (Cat.model_construct(lives="many"), "lives"),
}


def through(model: BaseModel, *, ordered: bool = False) -> Any:
    def take(model: Any) -> None: ...

    take.__annotations__["model"] = type(model)
    arguments = Arguments(take, {})
    payload = arguments.encode((model,), {}, ordered=ordered)
    assert WORD not in repr(msgspec.msgpack.decode(payload, ext_hook=masked, strict=False))
    return arguments.decode(payload)[0][0]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_a_model_arrives_as_it_was_sent(name: str, ordered: bool) -> None:
    sent = VALUES[name]
    arrived = through(sent, ordered=ordered)
    assert type(arrived) is type(sent)
    if name == "every type":
        assert repr(arrived) == REPR  # which tells types, offsets and what is not a number
    else:
        assert arrived == sent


def test_secrets_arrive_with_their_value() -> None:
    arrived = through(ACCOUNT)
    assert arrived.password.get_secret_value() == arrived.token.reveal() == WORD
    assert arrived.key.get_secret_value() == WORD.encode() + b"\xff"
    assert arrived.pin.get_secret_value() == 7


def take_one(pet: Cat) -> None: ...
def take_many(pets: list[Cat], *, best: Cat | None = None) -> None: ...


SUBCLASS = Derived(lives=1)


@pytest.mark.parametrize(
    ("take", "args", "kwargs"),
    [
        (take_one, (SUBCLASS,), {}),
        (take_one, (), {"pet": SUBCLASS}),
        (take_many, ([Cat(lives=1), SUBCLASS],), {}),
        (take_many, ([],), {"best": SUBCLASS}),
    ],
)
def test_a_subclass_of_the_declared_model_is_refused_when_it_is_sent(
    take: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(InvalidPayload, match="a Derived would arrive as a Cat"):
        Arguments(take, {}).encode(args, kwargs)


def test_data_of_a_model_is_sent_in_its_place() -> None:
    arguments = Arguments(take_one, {})
    assert arguments.decode(arguments.encode(({"lives": 3},), {})) == ((Cat(lives=3),), {})


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_arrive_as_it_was_sent_is_refused_when_it_is_sent(name: str) -> None:
    model, place = REFUSED[name]
    with pytest.raises(InvalidPayload, match=f"{re.escape(type(model).__name__)}.*{place}") as refusal:
        through(model)
    assert WORD not in str(refusal.value)


def test_a_secret_in_a_model_is_no_text() -> None:
    assert WORD not in repr(ACCOUNT)
    assert WORD not in ACCOUNT.model_dump_json()
    assert WORD not in str(ACCOUNT.model_dump())


def test_an_error_about_a_model_with_secrets_does_not_quote_them() -> None:
    def take(account: Account) -> None: ...

    arguments = Arguments(take, {})
    with pytest.raises(InvalidPayload, match=r"account|user") as refusal:
        arguments.encode(({"password": WORD, "token": WORD},), {})
    assert WORD not in str(refusal.value)


def test_plain_data_for_a_model_with_secrets_is_masked_too() -> None:
    def take(account: Account, again: list[Account] | None = None) -> None: ...

    arguments = Arguments(take, {})
    plain = {"user": "ada", "password": WORD, "key": b"k", "pin": 7, "token": WORD}
    payload = arguments.encode((plain, [plain]), {})
    assert WORD not in repr(msgspec.msgpack.decode(payload, ext_hook=masked))
    (account, _), _ = arguments.decode(payload)
    assert account.password.get_secret_value() == WORD


@pytest.mark.parametrize("wanted", [SecretStr, pydantic.Secret[str]])
def test_a_secret_of_pydantics_is_an_argument(wanted: Any) -> None:
    def take(secret: Any, *, plain: Any = None) -> None: ...

    take.__annotations__.update(secret=wanted, plain=wanted)
    arguments = Arguments(take, {})
    payload = arguments.encode((wanted(WORD),), {"plain": WORD})
    assert WORD not in repr(msgspec.msgpack.decode(payload, ext_hook=masked))
    assert arguments.decode(payload) == ((wanted(WORD),), {"plain": wanted(WORD)})


def test_what_an_older_version_has_sent_is_read() -> None:
    def take(model: Alias, strict: Frozen) -> None: ...

    old = {"at": "2030-01-02T00:00:00Z", "colour": "red", "secret": "x"}
    payload = msgspec.msgpack.encode([[{"customerId": 1, "road": "a", "other": 2}, old]])
    (alias, strict), _ = Arguments(take, {}).decode(payload)
    assert (alias.customer_id, alias.street, alias.either) == (1, "a", 2)
    assert strict.secret.get_secret_value() == "x"
