"""Running programs in isolation: jailed workers, sessions over them, and what they are allowed."""
