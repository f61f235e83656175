"""The small model: a Llama of 1.3 million parameters that plays both roles, as its warm start left it.

Its weights ship with the package, in half precision; they are widened to single precision, in which it is trained.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spade_gym.models.base import ModelError

if TYPE_CHECKING:
    from spade_gym.models.transformers_model import TransformersModel

WEIGHTS = Path(__file__).parent / "weights"
#: sha256 of the shipped ``model.safetensors``.
DIGEST = "77e107f52d27608d464d69cba575684b65c0703c6a9bc49a8c426bc150ff91c9"


def open_small(argument: str, *, threads: int = 0, **settings: Any) -> TransformersModel:
    """Open the model (the plugin ``small`` of ``spade_gym.models``).

    Args:
        argument: Nothing.
        threads: Of torch, in this whole process; 0 leaves them as they are.
        **settings: See ``TransformersModel``.

    Raises:
        ModelError: Something follows the name, a package is missing, or the weights are not those that were shipped.
    """
    if argument:
        raise ModelError(f"the model 'small' takes nothing after its name, got {argument!r}")
    found = hashlib.sha256((WEIGHTS / "model.safetensors").read_bytes()).hexdigest()
    if found != DIGEST:
        raise ModelError(
            f"the weights in {WEIGHTS} are damaged: their sha256 is {found[:12]}…, expected {DIGEST[:12]}…; install "
            "the package again"
        )
    from spade_gym.models.transformers_model import TransformersModel

    if threads:
        import torch

        torch.set_num_threads(threads)
    return TransformersModel.open(str(WEIGHTS), **{"name": "small", "dtype": "float32", "max_batch": 128, **settings})
