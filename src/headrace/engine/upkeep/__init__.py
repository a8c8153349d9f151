"""Duties of a worker, each with an interval."""
