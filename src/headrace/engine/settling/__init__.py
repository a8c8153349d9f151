"""Keeps track of claims until their outcomes are written to the store."""
