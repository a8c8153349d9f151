"""Puts a worker together; starts, runs and stops it."""
