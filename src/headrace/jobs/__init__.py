"""Face one of the engine: tasks, calls and jobs."""
