"""Limits over the fleet: how many jobs run at once, and how many start in a span of time."""
