"""Topics: their log, their groups, and how groups draw events."""
