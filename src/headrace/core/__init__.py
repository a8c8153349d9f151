"""The values and contracts that the engine, the stores and the user-facing API share. No I/O, no logging."""
