"""Values and contracts: what the engine, the faces and the stores agree on. No I/O, no logging."""
