"""An app that keeps every ended job in the history. A worker is started as `headrace worker
tests.integration.programs.audited_app:app`. The environment names its store."""

from __future__ import annotations

import asyncio
import os

from headrace import App

from .recording_app import STORE

app = App(os.environ[STORE], history="all")


@app.task(name="audited")
async def audited(number: int) -> None:
    await asyncio.sleep(0.001)
