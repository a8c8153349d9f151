"""What the programs under test share: an app on the store that the environment names, and facts about its
runs.

A workload is a module that makes a `Program` and declares tasks and topics on its app, as a user's module
does. `headrace worker tests.torture.workloads.NAME:app` serves it, and `python -m tests.torture.produce NAME`
runs its `produce(program)`. Only the public names of headrace are used here and in workloads.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, cast

from headrace import (
    App,
    BackendUnavailable,
    HeadraceError,
    Job,
    JobCancelled,
    JobFailed,
    QueueFull,
    ResultNotKept,
    ResultTimeout,
    RetryLater,
    Snooze,
    current_job,
    signals,
)

from .facts import Plan, Recorder

#: The environment of a program: the URL of its store, the folder of the logs, its own name, and the seed.
URL, FOLDER, NAME, SEED = "TORTURE_URL", "TORTURE_FOLDER", "TORTURE_NAME", "TORTURE_SEED"

#: The durability level of its app, if not the default.
DURABILITY = "TORTURE_DURABILITY"

#: How many messages a producer sends in a second, if not as many as its workload says.
RATE = "TORTURE_RATE"

#: Seconds for which results and records of ended jobs are kept, if not as long as by default.
RESULT_TTL = "TORTURE_RESULT_TTL"

#: Seconds after which runs of tasks with a short timeout are interrupted, if not as their workload says. It
#: counts before the run says that it began: on a busy machine it must be much longer than that takes.
TIMEOUT = "TORTURE_TIMEOUT"

#: A file in the folder of the logs: producers end when it is there.
STOP = "stop"

Durability = Literal["default", "relaxed", "replicated", "fsync"]

#: Seconds for which a producer waits for a result.
RESULT_TIMEOUT: Final = 60.0


#: The errors with which runs fail as planned: by the handler, by a timeout, or because their child is gone.
EXPECTED: Final = ("PlannedFailure", "RetryLater", "TimeoutError", "ChildDied")


class PlannedFailure(Exception):
    """A run fails because its plan says so."""


class Harmful:
    """Tasks of every program that do harm, when a fault enqueues them."""

    def __init__(self, app: App, program: Program) -> None:
        @app.task(name="torture.block", queue="faults")
        async def block(message: str, seconds: float) -> None:
            """Blocks the event loop, as people do by mistake."""
            with program.running(message):
                time.sleep(seconds)  # noqa: ASYNC251 - to block the loop is what this task is for

        @app.task(name="torture.poison", queue="faults")
        async def poison(message: str) -> None:
            """Takes its process down."""
            with program.running(message):
                os._exit(9)

        @app.task(name="torture.picky", queue="faults")
        async def picky(message: str, number: int) -> None:
            """Takes a number: a text, or bytes that are no arguments, are refused."""
            with program.running(message):
                pass

        self.block, self.poison, self.picky = block, poison, picky


class Program:
    """One process of a workload: its app, its log, and its random choices."""

    def __init__(
        self,
        url: str,
        recorder: Recorder,
        seed: str,
        folder: Path | None,
        *,
        rate: float = 0.0,
        durability: Durability = "default",
        outbox: str = "",
    ) -> None:
        self.recorder = recorder
        self.url = url
        self.is_postgres = url.startswith("postgresql:")
        #: The parts of a stream that is divided; PostgreSQL has no parts.
        self.partitions = None if self.is_postgres else 3
        #: The file of the producers' own transactions, if they have any. With PostgreSQL they need none:
        #: their tables are in the store's database.
        self.outbox = (folder or Path()) / outbox
        self.app = App(
            url,
            durability=durability,
            result_ttl=float(os.environ.get(RESULT_TTL, 3600)),
            outbox=f"sqlite:///{self.outbox}" if outbox and not self.is_postgres else None,
        )
        self.shared = Random(seed)  #: chooses alike in every process: for declarations
        self.own = Random(f"{seed} {recorder.process}")  #: for what this process does alone
        self.rate = float(os.environ.get(RATE, rate))
        self._folder = folder
        self._numbers = count(1)
        self.harmful = Harmful(self.app, self)
        self._listen()

    @classmethod
    def from_environment(cls, *, rate: float, outbox: str = "") -> Program:
        """A producer sends `rate` messages in a second. `outbox` is a file in the folder of the logs. Without
        an environment, as when a test imports a workload, nothing is recorded and nothing is shared."""
        folder = Path(os.environ[FOLDER]) if FOLDER in os.environ else None
        recorder = Recorder(folder, os.environ.get(NAME, "nobody"))
        url, seed = os.environ.get(URL, "memory://"), os.environ.get(SEED, "0")
        durability = cast("Durability", os.environ.get(DURABILITY, "default"))
        return cls(url, recorder, seed, folder, rate=rate, durability=durability, outbox=outbox)

    @property
    def stopped(self) -> bool:
        return self._folder is None or (self._folder / STOP).exists()

    def new_message(self) -> str:
        return f"{self.recorder.process}.{next(self._numbers)}"

    # --- in handlers -------------------------------------------------------------------------------------

    @contextmanager
    def running(self, message: str, *, group: str = "", id: str = "") -> Iterator[int]:
        """Around the work of a handler: writes down that it began and how it ended. Gives the attempt. A
        batch has no current job: it gives the `id`."""
        run, recorder = self.recorder.new_run(), self.recorder
        attempt = 0 if id else current_job().attempt
        job = id or current_job().id
        recorder.write(
            "started",
            message=message,
            job=job,
            run=run,
            group=group,
            attempt=attempt,
            deadline=0.0 if id else _deadline(),
        )
        how = ""
        try:
            yield attempt
            how = "ok"
        except (PlannedFailure, RetryLater):
            how = "failed"
            raise
        except Snooze:
            how = "snoozed"
            raise
        except Exception as error:
            how = f"error: {error!r}"
            raise
        finally:
            # By its timeout, a cancellation, or a worker that stops.
            how = how or "interrupted"
            recorder.write("ended", message=message, job=job, run=run, group=group, value=how)

    # --- in producers ------------------------------------------------------------------------------------

    async def send(self, message: str, plan: Plan, sending: Awaitable[Job[Any]]) -> Job[Any] | None:
        """Enqueue one job, and write down what became of it. None: it was not accepted."""
        self.invoke(message, plan)
        try:
            job = await sending
        except HeadraceError as error:
            self.failed(message, error)
            return None
        self.accept(message, job.id, duplicate=job.duplicate)
        return job

    def invoke(self, message: str, plan: Plan) -> None:
        self.recorder.write("invoked", message=message, plan=plan)

    def accept(self, message: str, id: str, *, duplicate: bool = False) -> None:
        self.recorder.write("accepted", message=message, job=id, duplicate=duplicate)

    def failed(self, message: str, error: Exception) -> None:
        """A send raised. Only an error that says so leaves open whether the store has taken the message: the
        error is uncertain, or the store has taken a part of the batch."""
        doubt = (isinstance(error, BackendUnavailable) and error.uncertain) or (
            isinstance(error, QueueFull) and bool(error.accepted)
        )
        self.recorder.write("uncertain" if doubt else "refused", message=message, value=repr(error))

    async def read_result(self, message: str, job: Job[Any]) -> None:
        """Wait for a result, and write down whose it is."""
        try:
            value = await job.result(timeout=RESULT_TIMEOUT)
        except ResultTimeout:
            self.recorder.write("unread", message=message, job=job.id)
        except (JobFailed, JobCancelled, ResultNotKept, BackendUnavailable, QueueFull):
            return  # it has no result, or the store is away; other rules tell whether that may be
        else:
            self.recorder.write("result", message=message, job=job.id, value=str(value).partition(" ")[0])

    async def cancel(self, message: str, job: Job[Any]) -> None:
        try:
            if await job.cancel():
                self.recorder.write("cancelled", message=message, job=job.id)
        except BackendUnavailable as error:
            if error.uncertain:
                self.recorder.write("cancelled", message=message, job=job.id, value="uncertain")

    async def pace(self, messages: int) -> None:
        """Wait as long as so many messages take at the rate of the producer."""
        await asyncio.sleep(messages / self.rate * self.own.uniform(0.5, 1.5))

    def pace_sync(self, messages: int) -> None:
        time.sleep(messages / self.rate * self.own.uniform(0.5, 1.5))

    def _listen(self) -> None:
        @self.app.on(signals.WorkerStarted)
        def started(signal: signals.WorkerStarted) -> None:
            self.recorder.write("working", value=signal.worker)

        @self.app.on(signals.JobFailed)
        @self.app.on(signals.EventFailed)
        def failed(signal: signals.JobFailed | signals.EventFailed) -> None:
            if not signal.error_type.endswith(EXPECTED):
                self.recorder.write("strange", job=signal.id, value=f"{signal.error_type}: {signal.error}")

        @self.app.on(signals.LeaseLost)
        def lost(signal: signals.LeaseLost) -> None:
            self.recorder.write("lost", job=signal.id)


def _deadline() -> float:
    """When the timeout of the current job interrupts it, on the monotonic clock; 0: it has none."""
    deadline = current_job().deadline
    return 0.0 if deadline is None else time.monotonic() + deadline.timestamp() - time.time()
