"""Producers: gather messages and append them."""
