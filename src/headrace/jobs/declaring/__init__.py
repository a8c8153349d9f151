"""Tasks and queues as an app declares them."""
