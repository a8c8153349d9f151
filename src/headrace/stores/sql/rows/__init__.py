"""Rows of SQL stores, and the records that are made of them."""
