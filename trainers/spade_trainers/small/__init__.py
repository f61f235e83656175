"""A whole self-play run on a CPU: a small model, its warm start, the suite, the demo and the ablations."""
