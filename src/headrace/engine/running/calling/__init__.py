"""How a handler is called: in the task of its slot or in a thread, and what it must not interrupt."""
