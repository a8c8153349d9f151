"""The code of docs/guides/events.md does what the guide says, as it stands there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from headrace import Published
from headrace.testing import memory

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "events.md"


async def _run(code: str, names: dict[str, Any]) -> None:
    """Code as it is typed into `python -m asyncio`: it may await where it stands."""
    running = eval(compile(code, str(GUIDE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(running):
        await running


async def test_the_code_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    module, *others = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "shop"}
    await _run(module, names)
    app, orders, order_placed = names["app"], names["orders"], names["OrderPlaced"]
    with memory(app) as kit:
        for code in others:
            await _run(code, names)
        assert [type(outcome) for outcome in names["outcomes"]] == [Published, Published]
        await orders.publish(order_placed(0))
        kit.assert_published(orders, order_placed(7), key="customer-3", count=1)
        kit.assert_published(orders, order_placed(2), key="customer-3", count=1)
        await kit.drain()
        billed = capsys.readouterr().out.splitlines()
        assert sorted(billed) == [f"bill order {number}" for number in (0, 1, 2, 7)]
        [letter] = await app.admin.dead(topic="orders")
        assert (letter.group, letter.error) == ("index", "no such order")
