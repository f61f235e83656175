"""Programs and players for SkyRL (NovaSky-AI/SkyRL), an engine for RL post-training on many GPUs.

``dataset.py`` turns a pool into SkyRL's prompts, ``generator.py`` plays them with SkyRL's inference engines
(``engine.py``), ``advantages.py`` judges the plays, ``overrides.py`` says a recipe in SkyRL's words, and ``train.py``
starts SkyRL with all of it. Written against skyrl 0.3.0; the contract is tested against its own code.
"""
