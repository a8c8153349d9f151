"""Looks at a store again and again, and asks the doctor now and then, in the background."""

from __future__ import annotations

from headrace.admin.doctor import RecentFindings
from headrace.app import App
from headrace.cli.snapshot import Snapshot, look
from headrace.core.examination import Finding


class Looking:
    """`await looking.look()`, as often as one likes; `close` at the end."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._recent = RecentFindings(app.admin.doctor)
        self.findings: list[Finding] = []

    async def look(self) -> Snapshot:
        seen = await look(self._app)
        self.findings = self._recent.get()
        return seen

    async def close(self) -> None:
        await self._recent.close()
