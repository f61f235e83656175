"""Plays on many machines with Ray: each worker has an engine and sandboxes of its own.

``cluster.py`` gives work to workers and repeats what a dead one had; ``worker.py`` is what runs in one; ``wire.py`` is
what goes between them; ``model.py`` makes it the model ``ray:SPEC`` of a recipe.
"""
