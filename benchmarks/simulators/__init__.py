"""Simulators whose samples the cases read; python -m benchmarks.simulators.NAME computes the samples of one again."""
