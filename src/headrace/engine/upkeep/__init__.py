"""Upkeep: the work that a worker does at intervals, beside its jobs."""
