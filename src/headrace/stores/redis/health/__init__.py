"""Examines servers for `headrace doctor`."""
