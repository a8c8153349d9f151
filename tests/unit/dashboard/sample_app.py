"""A small app whose texts may be as hostile as a test likes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from headrace import App, Job, RetryPolicy, Secret, current_job
from headrace.stores import open_store
from tests.support.waiting import wait_until

log = logging.getLogger("shop")

#: What must arrive as text wherever it stands: markup, quotes, templates, controls, directions, halves.
HOSTILE: Final = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onmouseover='alert(1)",
    "</textarea></pre><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066\u200f",
    "nul\x00 and bell\x07 and \x1b[31mred",
    "half \ud800 of a character",
    "line one\r\nSet-Cookie: a=b",
    "x" * 1_000_000,
)


def log_all(texts: tuple[str, ...]) -> int:
    for text in texts:
        log.warning("%s", text)
    return len(texts)


class Placed(msgspec.Struct):
    number: int
    note: str = ""
    card: Secret[str] | None = None


class Shop:
    """The app, and its tasks by name."""

    def __init__(self, url: str) -> None:
        self.backend = open_store(url)
        self.app = App(store=self.backend, job_logs=20)
        self.orders = self.app.topic("orders", Placed)
        self._declare_tasks()
        self._declare_handlers()

    async def run_until(self, job: Job[Any], status: str) -> None:
        """Have a worker run until this job is so."""
        async with self.app.worker(grace=0):
            await self.until(job, status)

    async def until(self, job: Job[Any], status: str) -> None:
        async def is_so() -> bool:
            return await job.status() == status

        await wait_until(is_so)

    def _declare_tasks(self) -> None:
        app = self.app

        @app.task(name="add")
        async def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task(name="echo")
        async def echo(value: Any) -> Any:
            return value

        @app.task(name="say", queue="said")
        async def say(*texts: str) -> int:
            return log_all(texts)

        @app.task(name="mail", queue="mails", retry=RetryPolicy.none())
        async def mail(to: str) -> None:
            raise ValueError(to)

        @app.task(name="flaky", retry=RetryPolicy.fixed(5, 3600))
        async def flaky() -> None:
            raise OSError("the bank is closed")

        @app.task(name="login")
        async def login(user: str, password: Secret[str]) -> None: ...

        @app.task(name="store")
        async def store(data: bytes) -> None: ...

        @app.task(name="wait", queue="slow")
        async def wait(text: str = "reading") -> None:
            await current_job().progress(0.4, text)
            await asyncio.sleep(3600)

        @app.cron("0 9 * * mon-fri", name="morning")
        @app.task(name="report")
        async def report() -> None: ...

        self.add, self.echo, self.mail, self.flaky = add, echo, mail, flaky
        self.login, self.store, self.wait, self.report, self.say = login, store, wait, report, say

    def _declare_handlers(self) -> None:
        @self.orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
        async def bill(event: Placed) -> None:
            if event.note:
                raise ValueError(event.note)

        @self.orders.subscribe(group="audit", start="beginning")
        async def audit(event: Placed) -> None: ...
