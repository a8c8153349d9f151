"""The process around the code: its clock, threads, hosts and the current run."""
