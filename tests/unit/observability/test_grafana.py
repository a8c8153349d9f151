"""The dashboard under examples/ asks for what there is, and shows all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import App, signals
from headrace.observability.prometheus import instrument
from tests.support.died import job_died

ROOT = Path(__file__).parents[3]

#: `name{a="b", c=~"d"}`, the braces where there are any.
_SELECTOR = re.compile(r"(headrace_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture
def dashboard() -> Any:
    return json.loads((ROOT / "examples" / "grafana-dashboard.json").read_text())


def queries(dashboard: Any) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((.*), (\w+)\)", r"max by (\2) (\1)", variable["definition"])


class Metric:
    """The labels of a metric, and the values that those have which the code chooses."""

    def __init__(self) -> None:
        self.labels: set[str] = set()
        self.values: dict[str, set[str]] = {}


async def every_metric() -> dict[str, Metric]:
    """By the name of each sample, after everything has happened once."""
    app = App("memory://")
    metrics = instrument(app)

    @app.task(name="add")
    async def add(n: int) -> None: ...

    orders = app.topic("orders", int)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: int) -> None: ...

    await add.with_(job_id="once").enqueue(1)
    await add.with_(job_id="once").enqueue(1)
    await orders.publish(1, idempotency_key="once")
    await orders.publish(1, idempotency_key="once")
    worker = app.worker()
    metrics.watch(worker)
    await worker.run(burst=True)
    for signal in _troubles():
        app._emitter.emit(signal)
    await metrics.render()
    found: dict[str, Metric] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            metric = found.setdefault(sample.name, Metric())
            metric.labels |= sample.labels.keys()
            for label, value in sample.labels.items():
                metric.values.setdefault(label, set()).add(value)
    await app.close()
    return {name: metric for name, metric in found.items() if not name.endswith("_created")}


def _troubles() -> list[signals.Signal]:
    job, event = ("j", "add", "default"), ("e", "int", "orders", "billing")
    return [
        signals.JobFailed(*job, 1, "w", 0.1, "ValueError", "no", ""),
        signals.JobRetrying(*job, 1, 1.0, "ValueError"),
        job_died(*job, 1, "exhausted", "ValueError", "no"),
        signals.JobRecovered(*job, 1, "w"),
        signals.LeaseLost(*job, "w"),
        signals.ThreadOverdue(*job, 1.0),
        signals.EventFailed(*event, 1, "w", 0.1, "ValueError", "no", ""),
        signals.EventRetrying(*event, 1, 1.0, "ValueError"),
        signals.EventDied(*event, 1, "exhausted", "ValueError", "no"),
        signals.EventRecovered(*event, 1, "w"),
        signals.BackendError("fetcher", "away", 1.0),
    ]


async def test_every_query_names_metrics_labels_and_values_that_exist(dashboard: Any) -> None:
    known = await every_metric()
    for query in queries(dashboard):
        selectors = _SELECTOR.findall(query)
        assert selectors, query
        for name, braces in selectors:
            assert name in known, (name, query)
            for label, operator, value in _LABEL.findall(braces):
                assert label in known[name].labels, (label, query)
                assert operator != "=" or value in known[name].values[label], (value, query)
        available = set.union(*(known[name].labels for name, _ in selectors))
        for group in _GROUPED.findall(query):
            assert {label.strip() for label in group.split(",")} <= available, query


async def test_every_metric_is_shown_and_described(dashboard: Any) -> None:
    shown = " ".join(queries(dashboard))
    guide = (ROOT / "docs" / "guides" / "observability.md").read_text()
    for name in await every_metric():
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert family in shown, family
        assert f"`{family}`" in guide, family


def test_panels_have_names_ids_and_places_of_their_own(dashboard: Any) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"]
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
