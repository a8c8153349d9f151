"""Child processes for CPU work: a pool in the worker, and the program of a child."""
