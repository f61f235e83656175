"""Benchmarks, each a function that returns plain numbers."""
