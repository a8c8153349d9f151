"""Sends the reports of a child process to its worker. Answers go at once. The latest progress and all log
lines go a few times a second."""

from __future__ import annotations

import socket
import threading
import time

from headrace.engine.running.job_log.run_log import RunLog

from .protocol import FRAME_MOST, FromChild, Logged, Progressed, Raised, Returned, Started, frame

#: Seconds between two progress messages, however often a function reports progress.
SEND_EVERY = 0.2


class ChildReports:
    """Sends progress from a thread. So the latest report arrives even if the function makes no other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._number = 0  # of the current assignment
        self._latest: Progressed | None = None
        self._log: RunLog | None = None
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, number: int) -> None:
        """The function of this assignment begins."""
        with self._lock:
            self._number = number
            self._latest = None
            self._send(Started(number))

    def progress(self, number: int, fraction: float, text: str) -> None:
        """Report progress, from any thread of the job."""
        self._latest = Progressed(number, fraction, text)
        self._notify()

    def log(self, most: int) -> RunLog:
        """A log for the current job. Its new lines are sent to the worker."""
        self._log = RunLog(most, self._notify)
        return self._log

    def answer(self, answer: Returned | Raised) -> None:
        """Send the answer. The job is over, so unsent progress is dropped."""
        with self._lock:
            self._latest = None
            self._send_log()
            self._log = None
            self._send(_bounded(answer))

    def _notify(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_reports, name="headrace progress", daemon=True)
            self._thread.start()
        self._changed.set()

    def _send_reports(self) -> None:
        sent: Progressed | None = None
        while self._changed.wait():
            self._changed.clear()
            with self._lock:
                self._send_log()
                latest = self._latest
                if latest is not None and latest is not sent:
                    self._send(latest)
                    sent = latest
            time.sleep(SEND_EVERY)

    def _send_log(self) -> None:
        if self._log is not None and self._log.unwritten:
            lines, dropped = self._log.taken()
            self._send(Logged(self._number, list(lines), dropped))

    def _send(self, message: FromChild) -> None:
        self._connection.sendall(frame(message))


def _bounded(answer: Returned | Raised) -> Returned | Raised:
    if isinstance(answer, Returned) and answer.value is not None and len(answer.value) > FRAME_MOST // 2:
        return Returned(answer.number, None, f"the result has {len(answer.value):,} bytes")
    return answer
