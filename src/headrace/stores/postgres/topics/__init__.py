"""Topics: their logs, their groups, and how groups draw events from a log."""
