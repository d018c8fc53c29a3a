"""Timings; run with ``make bench``."""
