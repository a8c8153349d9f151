"""Implements topics and groups on Redis."""
