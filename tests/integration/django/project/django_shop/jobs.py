"""An app of the shop itself, for what Django's tasks do not have."""

from __future__ import annotations

from headrace import App

app = App("memory://shop-jobs")


@app.task
def pack(order: int) -> str:
    return f"packed {order}"
