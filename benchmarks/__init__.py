"""Benchmarks: what is measured, and the raw rows of what was measured (results/)."""
