"""The workloads, one in each file: a module with `program`, its `app`, and `produce(program)`, which sends
messages until the program is stopped."""
