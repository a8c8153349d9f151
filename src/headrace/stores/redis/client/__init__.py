"""A client of Redis and Valkey over hiredis: connections, Sentinel, Cluster."""
