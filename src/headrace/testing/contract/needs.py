"""What the contract suite needs beside headrace itself."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.core.errors import ConfigurationError

NEEDS = ("anyio", "hypothesis", "pytest")


def check_needs() -> None:
    """A `ConfigurationError` says what is not installed."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"headrace.testing.contract needs {', '.join(missing)}, which is not installed: "
            "pip install 'headrace[testing]'"
        )
