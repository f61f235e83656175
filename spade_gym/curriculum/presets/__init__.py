"""The known methods, one TOML table each; read by ``spade_gym.curriculum.preset``."""
