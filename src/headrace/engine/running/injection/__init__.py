"""What a function is given when it runs: the lifespan's values and its dependencies."""
