"""What a doctor finds, by name."""

from __future__ import annotations

from typing import Any

from headrace import App
from headrace.core.records.findings import Finding, Level

OK, WARN, FAIL = Level.OK, Level.WARN, Level.FAIL


class Findings:
    def __init__(self, findings: list[Finding]) -> None:
        self.all = findings

    def __getitem__(self, name: str) -> Finding:
        """The only finding of this name."""
        [finding] = [each for each in self.all if each.name == name]
        return finding

    def level(self, name: str) -> Level:
        """Whatever is not ok has a remedy."""
        finding = self[name]
        assert bool(finding.remedy) == (finding.level is not OK)
        return finding.level

    def __contains__(self, name: str) -> bool:
        return any(each.name == name for each in self.all)


async def examined(app: App) -> Findings:
    return Findings(await app.admin.doctor())


async def examine(url: str, **options: Any) -> Findings:
    """With an app of its own."""
    async with App(url, **options) as app:
        return await examined(app)
