"""A small app for the command line to steer."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from pydantic import BaseModel

from headrace import App, Depends, RetryPolicy, Secret, Unrecoverable, current_job

log = logging.getLogger("shop")


@dataclass
class Order:
    number: int
    lines: list[str]


class Placed(msgspec.Struct):
    number: int
    card: Secret[str] | None = None
    at: datetime | None = None


class Customer(BaseModel):
    name: str
    born: datetime | None = None


def make_shop(url: str) -> App:
    """The app on a store; nothing of it is kept in this module."""
    app = App(url, job_logs=3)
    _declare_simple_tasks(app)
    _declare_typed_tasks(app)
    _declare_topics(app)
    return app


def _declare_topics(app: App) -> None:
    orders = app.topic("orders", Placed)
    app.topic("returns", Customer)
    app.topic("anything")

    @orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
    async def bill(event: Placed) -> None:
        if event.number % 2:
            raise ValueError(f"no bill for {event.number}")

    @orders.subscribe(group="audit", start="beginning", retry=RetryPolicy.none())
    async def audit(event: Placed) -> None:
        if event.number == 3:
            raise ValueError(f"no audit for {event.number}")


def _declare_simple_tasks(app: App) -> None:
    @app.task(name="shop.add")
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(name="shop.say", retry=RetryPolicy.fixed(1, 0))
    async def say(text: str) -> None:
        log.warning("begin")
        log.warning("%s", text)
        log.error("end of attempt %d", current_job().attempt)
        raise ValueError(text)

    @app.task(name="shop.quiet")
    async def quiet() -> None:
        pass

    @app.task(name="shop.mail", queue="mails", retry=RetryPolicy.none())
    async def mail(to: str) -> None:
        raise ValueError(f"cannot send to {to}")

    @app.task(name="shop.refuse", retry=RetryPolicy.none())
    async def refuse() -> None:
        raise Unrecoverable("never")

    @app.task(name="shop.flaky", retry=RetryPolicy.fixed(5, 3600))
    async def flaky() -> int:
        raise OSError("the bank is closed")

    @app.task(name="shop.read")
    async def read() -> None:
        await current_job().progress(0.4, "reading \x1b[31mrows")
        await asyncio.sleep(3600)


def _declare_typed_tasks(app: App) -> None:
    @app.task(name="types.order")
    async def order(when: datetime, order: Order) -> str:
        return f"{order.number} at {when.isoformat()}"

    @app.task(name="types.blob")
    async def blob(data: bytes) -> int:
        return len(data)

    @app.task(name="types.keyed")
    async def keyed(prices: dict[int, float]) -> list[int]:
        return list(prices)

    @app.task(name="types.customer")
    async def customer(customer: Customer) -> str:
        return customer.name

    @app.task(name="types.login")
    async def login(user: str, password: Secret[str], greeting: str = Depends(str)) -> Secret[str]:
        return password

    @app.task(name="types.many")
    async def many(*numbers: int, **words: str) -> list[Any]:
        return [*numbers, words]
