"""Tables in: reading, validating, scaling and batching the tasks."""
