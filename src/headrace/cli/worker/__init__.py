"""`headrace worker`: the process, or several of them, with logs and probes."""
