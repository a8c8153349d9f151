"""Claims messages: with a script under load, with a blocking read when idle."""
