"""One file for each seeded bug: a module with `BUG`."""
