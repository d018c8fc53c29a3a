"""Experiments of our own, which compare layers and have no paper."""
