"""Batch handlers: gathers claims into bundles, and runs a bundle with one call."""
