"""Benchmarks behind the numbers in docs/, each run with ``python -m benchmarks.NAME``."""
