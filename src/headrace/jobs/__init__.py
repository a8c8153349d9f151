"""Jobs: tasks, calls, and what becomes of them. A layer over the engine that does not know events."""
