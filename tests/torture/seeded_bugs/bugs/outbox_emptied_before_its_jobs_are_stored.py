"""An outbox is emptied before its jobs are stored."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/relaying/relay.py",
    why="A relay that ends between its two steps takes jobs of committed transactions with it.",
    before="""
        for target in sending.targets:
            answers = await self._append(batch, target)
            await self._conclude(target, answers, sending)
        await self.source.hand_on(batch, kept=sending.kept)
    """,
    after="""
        await self.source.hand_on(batch, kept=sending.kept)
        for target in sending.targets:
            answers = await self._append(batch, target)
            await self._conclude(target, answers, sending)
    """,
    tests=("tests/unit/behaviour/test_outboxes.py::test_a_relay_backs_off_while_the_target_is_away",),
)
