"""Stable-Baselines3 on programs: menu actions, hashed observations, and a batched ``VecEnv``."""
