"""Limits, lines and tenants in the file."""
