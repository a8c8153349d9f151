"""The thread that writes. The steps that gather during one transaction go into the next one.

A single verb is written at once; many verbs share commits. Nothing waits for a timer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any, Final

import apsw

from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.runtime.clock import TimeSource
from headrace.stores.sqlite.connection.connection import Connection, Synchronous
from headrace.stores.sqlite.faults import FAILURES, is_full, nearly_full
from headrace.stores.sqlite.file.disk_room import DiskRoom

from . import commit_signals
from .change_notice import ChangeNotice
from .step import WriteStep
from .store_thread import Answers, StoreThread
from .transaction import Transaction

#: The most weight in one transaction. A message weighs 1, and so does a verb without messages.
MOST_WEIGHT: Final = 2000

#: Seconds between two transactions that are not urgent, while another process writes too. Claims and
#: settlements of workers gather meanwhile, and workers take the lock from producers less often.
APART: Final = 0.01

#: A transaction that takes fewer seconds than this is small enough to make APART worthwhile.
SMALL: Final = 0.002

#: The most bytes that a step on the event loop may add.
MOST_AT_ONCE: Final = 64 * 1024

#: Up to this average, in seconds, commits are short. Above it, the way through the writer's thread costs
#: little in comparison, and the event loop would be blocked for too long.
SHORT: Final = 0.001

#: The share of the newest commit in the average. One of 50 ms keeps the next thirty off the event loop.
SHARE: Final = 0.125

#: Seconds that are assumed before the first commit. The first twenty commits correct this.
UNKNOWN: Final = 0.01


class RolledBack(Exception):
    """A transaction was rolled back. `shared`: the error concerns every step of it. `full`: the disk had no
    room."""

    def __init__(self, error: Exception, *, shared: bool, full: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.shared = shared
        self.full = full


class WriterThread(StoreThread[WriteStep[Any]]):
    def __init__(
        self,
        connection: Connection,
        notify: Callable[[ChangeNotice], None],
        *,
        namespace: str,
        synchronous: Synchronous,
        clock: TimeSource,
        is_awaited: Callable[[], bool],
    ) -> None:
        super().__init__("writer", connection, notify)
        self._namespace = namespace
        self._synchronous: Synchronous = synchronous
        self._clock = clock
        self._is_awaited = is_awaited
        self._times = CommitTimes()
        self._again_at = 0.0  # steps that are not urgent wait until then
        self._room = DiskRoom(connection)

    def write_at_once(self, step: WriteStep[Any]) -> bool:
        """Run the step on the event loop, which saves the way through the thread and back. False: the step
        did not run, because other steps are running or it might take long."""
        connection = self._connection
        if self._unanswered or connection.checkpoint_due or not self._times.are_short:
            return False
        # A fork that waits for the connection would hardly get it if this took it again and again.
        if step.size > MOST_AT_ONCE or connection.is_wanted or not connection.in_use.acquire(blocking=False):
            return False
        try:
            answer, changes = self._try_at_once(step)
        finally:
            connection.undo()  # does something only if a signal handler has raised in between
            connection.in_use.release()
        if answer is None:
            return False
        step.settle(answer)
        if changes:
            self._notify(changes)
        return True

    def _try_at_once(self, step: WriteStep[Any]) -> tuple[Any, ChangeNotice]:
        """The answer; None: the thread must try, and handle any error."""
        connection = self._connection
        try:
            if not (connection.is_ready and self._room.is_plentiful()):
                return None, ChangeNotice()
            connection.synchronise(self._synchronous)
            if not connection.begin_at_once():
                return None, ChangeNotice()
            [answer], changes = self._execute([step])
        except (apsw.Error, OSError):
            return None, ChangeNotice()
        except RolledBack as spoiled:
            return spoiled.error if spoiled.shared else None, ChangeNotice()
        return answer, changes

    def _work(self) -> None:
        going = True
        while going:
            steps, going = self._gather()
            if not steps:
                continue
            with self._connection.in_use:
                answers, changes = self._carry_out(steps)
            # The connection is free when the event loop gets the answers, so it can write the next step.
            self._deliver(answers, changes)
            if self._connection.checkpoint_due:
                with self._connection.in_use:
                    self._connection.checkpoint()

    def _gather(self) -> tuple[list[WriteStep[Any]], bool]:
        """Wait for a step and take those that are queued behind it. False: there will be no more."""
        steps: list[WriteStep[Any]] = []
        weight = 0
        item = self._queue.get()
        while isinstance(item, WriteStep):
            steps.append(item)
            weight += item.weight
            if weight >= MOST_WEIGHT:
                return steps, True
            try:
                item = self._queue.get(timeout=self._pause(steps))
            except Empty:
                return steps, True
        return steps, False

    def _pause(self, steps: list[WriteStep[Any]]) -> float:
        """The seconds for which these steps can wait for others to join them."""
        if not self._again_at or any([step.urgent for step in steps]):
            return 0.0
        return max(0.0, self._again_at - time.monotonic())

    def _carry_out(self, steps: list[WriteStep[Any]]) -> tuple[Answers[WriteStep[Any]], ChangeNotice]:
        answers: Answers[WriteStep[Any]] = []
        changes = ChangeNotice()
        if any([not step.durable for step in steps]):
            self._room.hold()  # this process is a worker
        try:
            writing = [step for step in steps if not self._answer_without_writing(step, answers)]
            writing = self._with_room(writing, answers)
            if writing:
                changes = self._write(writing, answers)
        except Exception as error:
            answered = {id(step) for step, _ in answers}
            answers += [(step, error) for step in steps if id(step) not in answered]
        return answers, changes

    def _answer_without_writing(self, step: WriteStep[Any], answers: Answers[WriteStep[Any]]) -> bool:
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

    def _with_room(
        self, steps: list[WriteStep[Any]], answers: Answers[WriteStep[Any]]
    ) -> list[WriteStep[Any]]:
        """The steps that may run. A nearly full disk takes no new messages, so that stored ones can run."""
        size = sum([step.size for step in steps])
        if not size:
            self._room.save_log()
        if not size or self._room.takes(size):
            return steps
        answers += [(step, nearly_full(self._connection.path)) for step in steps if step.size]
        return [step for step in steps if not step.size]

    def _write(self, steps: list[WriteStep[Any]], answers: Answers[WriteStep[Any]]) -> ChangeNotice:
        try:
            values, changes = self._transact_with_room(steps)
        except RolledBack as spoiled:
            if spoiled.shared or len(steps) == 1:
                answers += [(step, spoiled.error) for step in steps]
                return ChangeNotice()
            # One of the steps caused the error. Each runs alone now, so that the others succeed.
            return self._write_one_by_one(steps, answers)
        answers += zip(steps, values, strict=True)
        return changes

    def _write_one_by_one(
        self, steps: list[WriteStep[Any]], answers: Answers[WriteStep[Any]]
    ) -> ChangeNotice:
        changes = ChangeNotice()
        for step in steps:
            changes.add(self._write([step], answers))
        return changes

    def _transact_with_room(self, steps: list[WriteStep[Any]]) -> tuple[list[Any], ChangeNotice]:
        try:
            return self._transact(steps)
        except RolledBack as spoiled:
            if not spoiled.full:
                raise
            # The reserve is for stored messages, not for new ones.
            of_reserve = not any([step.size for step in steps])
            try:
                if not self._room.make(of_reserve=of_reserve):
                    raise
                return self._transact(steps)
            finally:
                if of_reserve:
                    self._room.hold_rest()

    def _transact(self, steps: list[WriteStep[Any]]) -> tuple[list[Any], ChangeNotice]:
        self._begin(
            durable=any([step.durable for step in steps]), urgent=any([step.urgent for step in steps])
        )
        began = time.monotonic()
        answer = self._execute(steps)
        ended = time.monotonic()
        small = ended - began < SMALL
        self._again_at = ended + APART if small and self._connection.met_another else 0.0
        return answer

    def _execute(self, steps: list[WriteStep[Any]]) -> tuple[list[Any], ChangeNotice]:
        """Run the steps in a transaction that has begun, and commit it. The write lock is held."""
        connection = self._connection
        began = time.monotonic()
        transaction = Transaction(
            connection,
            namespace=self._namespace,
            now_us=self._clock.now_us(),
            waited_for=self._is_awaited(),
        )
        try:
            values = [step.run(transaction) for step in steps]
            transaction.finish()
        except FAILURES as error:
            raise RolledBack(connection.failed(error), shared=False, full=is_full(error)) from error
        except Exception as error:
            connection.undo()
            raise RolledBack(error, shared=False) from error
        try:
            connection.commit()
        except apsw.Error as error:
            failure = connection.failed(error, committing=True)
            raise RolledBack(failure, shared=failure.uncertain, full=is_full(error)) from error
        durable = any([step.durable for step in steps])
        if durable and len(steps) == steps[0].weight == 1:
            self._times.add(time.monotonic() - began)
        if transaction.changes or durable:
            commit_signals.send(connection.turn)
        return values, transaction.changes

    def _begin(self, *, durable: bool, urgent: bool) -> None:
        try:
            self._connection.open()
            self._connection.synchronise(self._synchronous if durable else "NORMAL")
            self._connection.begin(urgent=urgent)
        except apsw.Error as error:
            raise RolledBack(self._connection.failed(error), shared=True) from error
        except (HeadraceError, OSError) as error:
            raise RolledBack(_unavailable(error), shared=True) from error


def _unavailable(error: HeadraceError | OSError) -> Exception:
    return error if isinstance(error, HeadraceError) else BackendUnavailable(str(error))


class CommitTimes:
    """The moving average of transactions with one message that wait for the disk."""

    def __init__(self) -> None:
        self._average = UNKNOWN

    @property
    def are_short(self) -> bool:
        return self._average < SHORT

    def add(self, seconds: float) -> None:
        self._average += (seconds - self._average) * SHARE
