"""Environment programs that ship with spade-gym, one folder each: ``program.py`` and ``manifest.toml``.

They are data: ``spade_gym.pool.registry()`` reads them, and the sandbox runs them; nothing here is imported.
"""
