"""The app that these files deploy. Replace it with your own."""

from __future__ import annotations

from headrace import App

app = App()  # the URL is in HEADRACE_URL


@app.task(timeout=60)
async def greet(name: str) -> str:
    return f"hello {name}"
