"""What the command line names: a store, a queue or group, the arguments of a job."""
