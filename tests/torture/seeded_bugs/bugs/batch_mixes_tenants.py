"""Batch mixes tenants."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug

BUG = SeededBug(
    file="engine/running/batches/job_gathering.py",
    why="A list of a batch task has jobs of several tenants.",
    before="""
                tenant = "" if claim.constraints is None else claim.constraints.tenant
    """,
    after="""
                tenant = ""
    """,
    tests=("tests/integration/api/test_batch_tasks.py::test_a_list_has_jobs_of_one_tenant[memory]",),
)
