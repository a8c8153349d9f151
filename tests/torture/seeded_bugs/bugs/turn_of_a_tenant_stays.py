"""Turn of a tenant stays."""

from __future__ import annotations

from tests.torture.seeded_bugs.seeded_bug import SeededBug, contract

BUG = SeededBug(
    file="stores/memory/streams/lines.py",
    why="A tenant with jobs of many customers runs before all other tenants.",
    before="""
        if lines:
            self._tenants.move_to_end(tenant)
        else:
            del self._tenants[tenant]
    """,
    after="""
        if not lines:
            del self._tenants[tenant]
    """,
    tests=(
        contract("test_tenants", "test_a_tenant_with_many_keys_has_one_turn", "memory"),
        contract("test_limit_machine", "test_a_store_keeps_limits_as_the_model_does", "memory-few"),
    ),
)
