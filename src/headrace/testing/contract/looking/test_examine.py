"""A store examines itself, and its findings say what is wrong and what to do."""

from __future__ import annotations

from headrace.core.records.findings import Level
from headrace.testing.contract.kit.stand import Stand


async def test_every_finding_has_a_name_and_a_text_and_whatever_is_not_ok_a_remedy(stand: Stand) -> None:
    findings = await stand.backend.examine()
    assert findings
    for finding in findings:
        assert finding.name
        assert finding.text
        assert bool(finding.remedy) == (finding.level is not Level.OK)


async def test_the_order_is_always_the_same(stand: Stand) -> None:
    first, second = [await stand.backend.examine() for _ in range(2)]
    assert [finding.name for finding in first] == [finding.name for finding in second]


async def test_an_examination_changes_nothing(stand: Stand) -> None:
    claim = await stand.running()
    await stand.add()
    before = await stand.counts()
    await stand.backend.examine()
    assert await stand.counts() == before
    assert await stand.renew(claim) == ["kept"]


async def test_a_store_on_a_test_stand_does_not_fail(stand: Stand) -> None:
    assert [finding for finding in await stand.backend.examine() if finding.level is Level.FAIL] == []
