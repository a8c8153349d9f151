from __future__ import annotations

import pytest

from headrace.stores.redis.intake import poll


@pytest.fixture(autouse=True)
def patient_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim reads on for a twentieth of a second. On a busy machine, that is the first portion only, and a
    test that counts would find too few."""
    monkeypatch.setattr(poll, "FRESH", 30.0)
