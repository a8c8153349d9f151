"""The kinds of fault. A file here has `FAULTS`, one or several that belong together."""

from __future__ import annotations

import importlib
import pkgutil

from tests.torture.arena import Fault
from tests.torture.stores import Family


def all_faults() -> dict[str, Fault]:
    """Every kind of fault by its name."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    return {fault.name: fault for module in modules for fault in module.FAULTS}


def faults_for(*families: Family) -> list[Fault]:
    """Those that all these stores and this machine can have."""
    return [
        fault
        for fault in all_faults().values()
        if fault.families.issuperset(families) and not fault.missing()
    ]


def skipped() -> dict[str, str]:
    """Those that this machine cannot have, and why."""
    reasons = {name: fault.missing() for name, fault in all_faults().items()}
    return {name: why for name, why in reasons.items() if why}
