"""What the code needs from its process: clocks, threads, host names and the current run."""
