"""Bundles: the claims that one call of a batch handler gets together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core.messages.claim import Claim
from headrace.engine.running.finished import FinishedRun


class Bundle(Claim, frozen=True, eq=False, gc=False):
    """Several claims that the slots handle as one. It has the data of the first of them."""

    claims: tuple[Claim, ...] = ()


class FinishedBundle(msgspec.Struct, frozen=True, eq=False):
    """Each claim of a bundle with its outcome."""

    claim: Bundle
    parts: list[FinishedRun]


def bundled(claims: list[Claim], size: int) -> list[Bundle]:
    """The claims in bundles of at most `size`, in order. A claim that crashed before gets its own bundle."""
    bundles: list[Bundle] = []
    gathered: list[Claim] = []
    for claim in claims:
        if claim.suspect:
            bundles.append(bundle_of(claim, [claim]))
            continue
        gathered.append(claim)
        if len(gathered) == size:
            bundles.append(bundle_of(gathered[0], gathered))
            gathered = []
    return [*bundles, bundle_of(gathered[0], gathered)] if gathered else bundles


def parts_of(claim: Claim) -> tuple[Claim, ...]:
    """The claims of a bundle, or the claim itself."""
    return claim.claims if isinstance(claim, Bundle) else (claim,)


def bundle_of(first: Claim, claims: Sequence[Claim]) -> Bundle:
    """A bundle of these claims, with the data of `first`."""
    looks: dict[str, Any] = {name: getattr(first, name) for name in Claim.__struct_fields__}
    return Bundle(**looks, claims=tuple(claims))
