"""The thread that writes: what has gathered while one transaction was under way goes into the next.

A lone verb is written at once, a flood shares commits. Nothing waits for a timer.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty
from typing import Any, Final

import apsw

from headrace.core.clock import Clock
from headrace.core.errors import BackendUnavailable, HeadraceError

from . import signalling
from .clerk import Answers, Clerk
from .connection import Connection, Synchronous
from .faults import is_full, nearly_full
from .news import News
from .step import Step
from .transaction import Transaction

#: How much goes into one transaction: messages, or verbs that weigh as much as one.
MOST_WEIGHT: Final = 2000


class Spoiled(Exception):
    """A transaction was rolled back. `shared`: whatever is wrong is wrong for every step of it. `full`: there
    was no room."""

    def __init__(self, error: Exception, *, shared: bool, full: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.shared = shared
        self.full = full


class Writer(Clerk[Step[Any]]):
    def __init__(
        self,
        connection: Connection,
        tell: Callable[[News], None],
        *,
        namespace: str,
        synchronous: Synchronous,
        clock: Clock,
        is_awaited: Callable[[], bool],
    ) -> None:
        super().__init__("writer", connection, tell)
        self._namespace = namespace
        self._synchronous: Synchronous = synchronous
        self._clock = clock
        self._is_awaited = is_awaited

    def _work(self) -> None:
        going = True
        while going:
            steps, going = self._gather()
            if steps:
                with self._connection.in_use:
                    self._carry_out(steps)

    def _gather(self) -> tuple[list[Step[Any]], bool]:
        """Wait for a step and take those that stand behind it; False: there will be no more."""
        steps: list[Step[Any]] = []
        weight = 0
        item = self._queue.get()
        while isinstance(item, Step):
            steps.append(item)
            weight += item.weight
            if weight >= MOST_WEIGHT:
                return steps, True
            try:
                item = self._queue.get_nowait()
            except Empty:
                return steps, True
        return steps, False

    def _carry_out(self, steps: list[Step[Any]]) -> None:
        answers: Answers[Step[Any]] = []
        news = News()
        try:
            writing = [step for step in steps if not self._answer_without_writing(step, answers)]
            writing = self._with_room(writing, answers)
            if writing:
                news = self._write(writing, answers)
        except Exception as error:
            answered = {id(step) for step, _ in answers}
            answers += [(step, error) for step in steps if id(step) not in answered]
        self._deliver(answers, news)

    def _answer_without_writing(self, step: Step[Any], answers: Answers[Step[Any]]) -> bool:
        if step.shortcut is None:
            return False
        try:
            self._connection.open()
            answered = step.shortcut(self._connection)
        except apsw.Error as error:
            answers.append((step, self._connection.failed(error)))
            return True
        except Exception as error:
            answers.append((step, error))
            return True
        if answered is None:
            return False
        answers.append((step, answered.value))
        return True

    def _with_room(self, steps: list[Step[Any]], answers: Answers[Step[Any]]) -> list[Step[Any]]:
        """Those that may be carried out: on a disk that is nearly full nothing new is taken, so that what is
        there can be run."""
        if self._connection.has_room(sum([step.size for step in steps])):
            return steps
        answers += [(step, nearly_full(self._connection.path)) for step in steps if step.size]
        return [step for step in steps if not step.size]

    def _write(self, steps: list[Step[Any]], answers: Answers[Step[Any]]) -> News:
        try:
            values, news = self._transact_with_room(steps)
        except Spoiled as spoiled:
            if spoiled.shared or len(steps) == 1:
                answers += [(step, spoiled.error) for step in steps]
                return News()
            # One of them is to blame: each alone, so that the others do not suffer.
            return self._write_one_by_one(steps, answers)
        answers += zip(steps, values, strict=True)
        return news

    def _write_one_by_one(self, steps: list[Step[Any]], answers: Answers[Step[Any]]) -> News:
        news = News()
        for step in steps:
            news.add(self._write([step], answers))
        return news

    def _transact_with_room(self, steps: list[Step[Any]]) -> tuple[list[Any], News]:
        try:
            return self._transact(steps)
        except Spoiled as spoiled:
            if not spoiled.full or not self._connection.make_room():
                raise
        return self._transact(steps)

    def _transact(self, steps: list[Step[Any]]) -> tuple[list[Any], News]:
        connection = self._connection
        self._begin(
            durable=any([step.durable for step in steps]), urgent=any([step.urgent for step in steps])
        )
        transaction = Transaction(
            connection,
            namespace=self._namespace,
            now_us=self._clock.now_us(),
            waited_for=self._is_awaited(),
        )
        try:
            values = [step.run(transaction) for step in steps]
            transaction.finish()
        except apsw.Error as error:
            raise Spoiled(connection.failed(error), shared=False, full=is_full(error)) from error
        except Exception as error:
            connection.undo()
            raise Spoiled(error, shared=False) from error
        try:
            connection.commit()
        except apsw.Error as error:
            failure = connection.failed(error, committing=True)
            raise Spoiled(failure, shared=failure.uncertain, full=is_full(error)) from error
        if transaction.news or any(step.durable for step in steps):
            signalling.send(connection.turn)
        return values, transaction.news

    def _begin(self, *, durable: bool, urgent: bool) -> None:
        try:
            self._connection.open()
            self._connection.synchronise(self._synchronous if durable else "NORMAL")
            self._connection.begin(urgent=urgent)
        except apsw.Error as error:
            raise Spoiled(self._connection.failed(error), shared=True) from error
        except (HeadraceError, OSError) as error:
            raise Spoiled(_unavailable(error), shared=True) from error


def _unavailable(error: HeadraceError | OSError) -> Exception:
    return error if isinstance(error, HeadraceError) else BackendUnavailable(str(error))
