"""Seeded bugs: small mutations of headrace's own code, each with the tests that must catch it."""
