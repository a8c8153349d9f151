"""Log lines for machines: one JSON object on each line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

#: Attributes that every record has, and attributes that have another name here.
_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "asctime",
    "message",
    "taskName",
}


class JsonLines(logging.Formatter):
    """`time`, `level`, `logger` and `message`, and all other attributes of a record: those of `JobContext`,
    the fields of a signal, and the user's `extra=`. Empty attributes are left out."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            facts["stack"] = self.formatStack(record.stack_info)
        return _line(facts)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    facts: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    for name, value in record.__dict__.items():
        if name not in _STANDARD and value is not None and value != "":
            facts.setdefault(name, value)
    return facts


def _line(facts: dict[str, object]) -> str:
    """ASCII, because a text may hold characters that no encoding has. Logging must not raise."""
    try:
        return json.dumps(facts, default=repr, allow_nan=False)
    except Exception:
        return json.dumps({str(name): _plain(value) for name, value in facts.items()})


def _plain(value: object) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
