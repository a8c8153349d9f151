"""An app with something of everything. Run as a program it is a worker, with three dashboards of the same
store: an open one, one with a password, and one that is read-only. It prints their addresses."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import msgspec
import uvicorn

from headrace import App, Job, Limit, RetryPolicy, Secret, current_job
from headrace.dashboard import asgi
from tests.support.waiting import wait_until

PASSWORD = "open sesame"

log = logging.getLogger("shop")


class Placed(msgspec.Struct):
    number: int
    note: str = ""
    card: Secret[str] | None = None


class SampleApp:
    def __init__(self, url: str, durability: str = "default") -> None:
        self.url = url
        options: dict[str, Any] = {"durability": durability, "job_logs": 20}
        self.app = App(url, **options)
        self.orders = self.app.topic("orders", Placed)
        self._declare_tasks()
        self._declare_talkers()
        self._declare_limited_tasks()
        self._declare_handlers()

    def enqueue(self, task: Any, *args: Any, **options: Any) -> Job[Any]:
        return self.app.sync.enqueue(task.with_(**options).call(*args))

    def publish(self, number: int, note: str = "", **options: Any) -> str:
        return self.app.sync.publish("orders", Placed(number, note, Secret("4111")), **options)

    def status(self, job: Job[Any]) -> str:
        return str(self.app.sync.status(job))

    def _declare_tasks(self) -> None:
        app = self.app

        @app.task(name="shop.add")
        async def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task(name="shop.mail", queue="mails", retry=RetryPolicy.none())
        async def mail(to: str) -> None:
            raise ValueError(f"cannot send to {to}")

        @app.task(name="shop.flaky", queue="flaky", retry=RetryPolicy.fixed(5, 3600))
        async def flaky(text: str) -> None:
            raise OSError(text)

        @app.task(name="shop.render", queue="reports")
        async def render(text: str) -> None:
            await current_job().progress(0.4, text)
            await asyncio.sleep(3600)

        @app.task(name="shop.echo", queue="echo")
        async def echo(value: Any) -> Any:
            return value

        @app.task(name="shop.bulk", queue="bulk")
        async def bulk(number: int) -> None: ...

        @app.cron("0 9 * * mon-fri", tz="Europe/London", name="morning")
        @app.task(name="shop.report", queue="nightly")
        async def report() -> None: ...

        self.add, self.mail, self.flaky, self.render = add, mail, flaky, render
        self.echo, self.bulk, self.report = echo, bulk, report

    def _declare_talkers(self) -> None:
        app = self.app

        @app.task(name="shop.say", queue="echo", retry=RetryPolicy.fixed(1, 0))
        async def say(texts: list[str]) -> None:
            for text in texts:
                log.warning("%s", text)
            log.error("attempt %d comes to nothing", current_job().attempt)
            raise ValueError(texts[0][:100])

        @app.task(name="shop.talk", queue="echo", retry=RetryPolicy.fixed(1, 3600))
        async def talk(lines: int) -> int:
            for number in range(lines):
                log.warning("line %d", number)
            if current_job().attempt == 1:
                raise OSError("the line is busy")
            return lines

        self.say, self.talk = say, talk

    def _declare_limited_tasks(self) -> None:
        app = self.app
        app.queue(
            "charges",
            slots=20,
            queue_limit=100_000,
            retry=RetryPolicy.fixed(5, 10),
            crash_limit=3,
            dead_retention=7 * 86_400,
            dead_limit=500,
            limits=[Limit(max_running=50)],
        )
        stripe = Limit("stripe", rate="100/s", max_running=2)

        @app.task(name="shop.charge", queue="charges", limits=[stripe])
        async def charge(cents: int) -> None:
            await asyncio.sleep(3600)

        by_customer = Limit("customer", max_running=1, by="customer")

        @app.task(name="shop.invoice", queue="invoices", limits=[by_customer], tenant_by="customer")
        async def invoice(customer: str) -> None: ...

        self.charge, self.invoice = charge, invoice

    def _declare_handlers(self) -> None:
        @self.orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
        async def bill(event: Placed) -> None:
            if event.note:
                raise ValueError(event.note)

        @self.orders.subscribe(group="audit", start="beginning")
        async def audit(event: Placed) -> None: ...


async def serve(sample: SampleApp) -> None:
    pages = (
        asgi(sample.app),
        asgi(sample.app, password=PASSWORD),
        asgi(sample.app, read_only=True),
    )
    servers = [uvicorn.Server(uvicorn.Config(page, port=0, log_level="warning")) for page in pages]
    # No worker serves bulk and invoices.
    queues = ["default", "mails", "flaky", "reports", "echo", "nightly", "charges"]
    async with sample.app, sample.app.worker(queues=queues, grace=0), asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(server.serve())
        await wait_until(lambda: all(server.started for server in servers))
        ports = [each.servers[0].sockets[0].getsockname()[1] for each in servers]
        print(*(f"http://127.0.0.1:{port}" for port in ports), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(SampleApp(sys.argv[1])))
