"""Keeps the log lines of handlers with their jobs, for apps with `App(job_logs=…)`.

It is a logging handler on the root logger while a worker of such an app runs. It gets the records of all
loggers that the program's own logging lets through. Other apps have no such handler.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Final

from headrace.core.messages.job_log import LINE_BYTES, LogLine
from headrace.engine.running.run import Run, current_run

from .run_log import RunLog

#: Bytes that are kept of a level's name. Programs can choose such names.
LEVEL_BYTES: Final = 20

#: The logger of headrace itself. Its lines do not belong to the job.
_OURS: Final = "headrace"


class Capture(logging.Handler):
    """Adds each record to the log of the run in whose context it was written."""

    def __init__(self, begin: Callable[[Run], RunLog]) -> None:
        super().__init__()
        self._begin = begin

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file(record)
        except Exception:
            self.handleError(record)  # as every handler does: a log line must not fail a job
        if _is_alone(self, record):
            _as_without_us(record)

    def _file(self, record: logging.LogRecord) -> None:
        run = current_run.get(None)
        # A slot's context still holds the last run after its end. A thread may also go on after its run.
        if run is not None and not run.ended and _is_kept(run) and record.name != _OURS:
            if run.log is None:
                run.log = self._begin(run)  # under the lock of the logging handler
            run.log.add(_line(run, record))


def _is_kept(run: Run) -> bool:
    """Whether log lines of the run are kept. A batch handler has one run for many events, so its lines belong
    to no single event."""
    return run.handler.job_logs > 0 and not run.handler.batch


def _own(run: Run) -> RunLog:
    return RunLog(run.handler.job_logs)


class _Installed:
    """One capture for all workers of a process, as long as a worker needs it."""

    def __init__(self) -> None:
        self._capture: Capture | None = None
        self._wanted = 0

    def want(self, begin: Callable[[Run], RunLog]) -> None:
        self._wanted += 1
        if self._capture is None:
            self._capture = Capture(begin)
            logging.getLogger().addHandler(self._capture)

    def release(self) -> None:
        self._wanted -= 1
        if self._wanted == 0 and self._capture is not None:
            logging.getLogger().removeHandler(self._capture)
            self._capture = None


_installed = _Installed()


def capture(begin: Callable[[Run], RunLog] = _own) -> Callable[[], None]:
    """Keep log lines from now on. Returns a function that ends this. `begin` makes the log when a run writes
    its first line."""
    _installed.want(begin)
    return _installed.release


def _line(run: Run, record: logging.LogRecord) -> LogLine:
    level = _head(record.levelname.lower(), LEVEL_BYTES)
    return LogLine(run.attempt, int(record.created * 1e6), level, _text(record))


def _text(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:
        text = repr(record.msg)  # its arguments do not fit: other handlers report that
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return _head(text, LINE_BYTES)
    # The end of a traceback says what happened. So the beginning is cut off.
    trace = "".join(traceback.format_exception(error)).rstrip()
    return f"{_head(text, LINE_BYTES // 2)}\n{_tail(trace, LINE_BYTES // 2)}"


def _head(text: str, most: int) -> str:
    data = text[: most + 1].encode(errors="backslashreplace")
    return data.decode() if len(data) <= most else data[: most - 3].decode(errors="ignore") + "…"


def _tail(text: str, most: int) -> str:
    data = text[-most - 1 :].encode(errors="backslashreplace")
    return data.decode() if len(data) <= most else "…" + data[3 - most :].decode(errors="ignore")


def _is_alone(capture: Capture, record: logging.LogRecord) -> bool:
    """Whether no other handler gets the record. Without this capture, `logging` would then print it."""
    if logging.getLogger().handlers != [capture]:
        return False
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if logger.handlers:
            return False
        logger = logger.parent
    return True


def _as_without_us(record: logging.LogRecord) -> None:
    last = logging.lastResort
    if last is not None and record.levelno >= last.level:
        last.handle(record)
