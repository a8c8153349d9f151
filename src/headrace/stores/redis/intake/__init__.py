"""Claims: a script under load, a blocking read when idle."""
