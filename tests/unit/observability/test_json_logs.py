"""Log lines as JSON: always one line, always JSON."""

from __future__ import annotations

import json
import logging
import logging.config
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import App
from headrace.core import signals
from headrace.observability.json_logs import JsonLines
from headrace.observability.logs import log_every_job, log_signals
from tests.support.died import job_died

from .conftest import Drain


def record(text: str = "stopped", **extra: Any) -> logging.LogRecord:
    return logging.getLogger("shop").makeRecord(
        "shop", logging.WARNING, "file", 1, text, (), None, None, extra
    )


def told(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonLines().format(record)
    assert "\n" not in line
    answer: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    return answer


def test_a_line_has_the_time_the_level_the_logger_the_text_and_what_was_given() -> None:
    line = told(record(order=7, job_id="", nested={"a": [1]}))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "shop",
        "message": "stopped",
        "order": 7,
        "nested": {"a": [1]},
    }


def test_an_error_is_in_the_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        error = logging.LogRecord("shop", logging.ERROR, "file", 1, "it %s", ("failed",), sys.exc_info())
    line = told(error)
    assert line["message"] == "it failed"
    assert line["exception"].endswith("ValueError: no")


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("never")


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    "value",
    [
        "two\nlines",
        "\ud800",
        "\x00\x1b[31m",
        float("nan"),
        object(),
        {(1, 2): 3},
        b"bytes",
        _circle(),
        Rude(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_logged_the_line_is_json(value: object) -> None:
    line = told(record(str(value) if isinstance(value, str) else "text", value=value))
    assert "value" in line


def test_a_signal_has_its_fields_under_the_names_that_records_of_the_handler_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = listeners()
    log[signals.JobDied](job_died("j1", "add", "default", 3, "exhausted", "ValueError", "no"))
    log[signals.EventDied](signals.EventDied("e1", "Placed", "orders", "billing", 1, "invalid", "", "no"))
    job, event = (told(each) for each in caplog.records)
    assert (job["signal"], job["job_id"], job["task"], job["queue"], job["attempt"]) == (
        "JobDied",
        "j1",
        "add",
        "default",
        3,
    )
    assert "id" not in job
    assert (event["job_id"], event["task"], event["queue"], event["group"]) == (
        "e1",
        "Placed",
        "orders/billing",
        "billing",
    )


def test_no_field_of_a_signal_is_a_name_that_log_records_have_themselves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    for signal, listener in listeners().items():
        listener(_made(signal))
    assert len(caplog.records) == len(listeners())


def listeners() -> dict[type[signals.Signal], Any]:
    found: dict[type[signals.Signal], Any] = {}
    log_signals(found.__setitem__)
    log_every_job(found.__setitem__)
    return found


def _made(signal: type[signals.Signal]) -> signals.Signal:
    """With some value in each field."""
    values = {"str": "text", "int": 1, "float": 1.0, "bool": True, "float | None": 1.0}
    fields = {field.name: field for field in msgspec.structs.fields(signal)}
    annotations = {
        name: text for base in signal.__mro__ for name, text in getattr(base, "__annotations__", {}).items()
    }
    return signal(**{name: values.get(annotations[name], ("a",)) for name in fields})


async def test_the_configuration_in_the_guide_works(
    app: App, drain: Drain, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "observability.md").read_text()
    [code] = re.findall(r"```python\n(LOGGING = .*?)```", guide, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level

    @app.task(name="add")
    async def add() -> None:
        logging.getLogger("shop").info("charged", extra={"amount": 7})

    job = await add.enqueue()
    try:
        logging.config.dictConfig(names["LOGGING"])
        await drain()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    [line] = [line for line in lines if line["logger"] == "shop"]
    assert (line["message"], line["amount"], line["job_id"], line["task"]) == ("charged", 7, job.id, "add")
