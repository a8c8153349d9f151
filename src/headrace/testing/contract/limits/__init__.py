"""Limits, tenants and order of jobs."""
