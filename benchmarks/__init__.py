"""Benchmarks: ours on each store, with the raw limit of the machine beside them."""
