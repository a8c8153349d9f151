"""What a store shows: streams, counts, records, progress, log lines, traffic and its own health."""
