"""GRPO on token ids, for both roles of one policy: the update of method section 7, on torch and transformers.

Read in this order, each file beside its formula: ``advantages.py`` (A), ``aggregation.py`` (what a token counts),
``loss.py`` (ρ, w, the clip, KL), ``logprobs.py`` (log-probabilities without logits of the whole batch),
``packing.py`` and ``attention.py`` (micro-batches), ``trainer.py`` (one update from top to bottom).
"""
