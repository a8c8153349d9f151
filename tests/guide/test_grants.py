"""The grants on the page of PostgreSQL are those that the doctor prints."""

from __future__ import annotations

from pathlib import Path

from headrace.stores.postgres.schema.grants import grants_for

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "postgresql.md"


def test_the_page_has_the_grants_that_a_role_needs() -> None:
    words = " ".join(PAGE.read_text().split())
    assert all(f"{grant};" in words for grant in grants_for("headrace", "worker"))
