"""Listeners to signals: logs here, metrics and traces beside them."""
