"""What a child process says to its worker: answers at once, of progress the latest, a few times a second."""

from __future__ import annotations

import socket
import threading
import time

from .pipe import FromChild, Progressed, Raised, Returned, frame

#: Seconds between two messages about progress, however often a function says how far it is.
TELL_EVERY = 0.2


class Telling:
    """A thread tells of progress, so that the last word of a function that goes on in silence arrives too."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._latest: Progressed | None = None
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def progress(self, fraction: float, text: str) -> None:
        """From any thread of the job."""
        self._latest = Progressed(fraction, text)
        if self._thread is None:
            self._thread = threading.Thread(target=self._tell, name="headrace progress", daemon=True)
            self._thread.start()
        self._changed.set()

    def answer(self, answer: Returned | Raised) -> None:
        """The job is over, and whatever it said before is of no more interest."""
        with self._lock:
            self._latest = None
            self._send(answer)

    def _tell(self) -> None:
        told: Progressed | None = None
        while self._changed.wait():
            self._changed.clear()
            with self._lock:
                latest = self._latest
                if latest is not None and latest is not told:
                    self._send(latest)
                    told = latest
            time.sleep(TELL_EVERY)

    def _send(self, message: FromChild) -> None:
        self._connection.sendall(frame(message))
