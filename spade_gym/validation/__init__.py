"""Is a program sound? Checks with evidence, and the verdict."""
