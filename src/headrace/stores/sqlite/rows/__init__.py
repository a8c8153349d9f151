"""Rows and columns as values: lanes, unique keys, producers."""
