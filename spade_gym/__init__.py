"""Programs that a language model wrote, as isolated and deterministic Gymnasium environments.

Importing this package registers ``spade/<Name>-v0`` for every bundled program and ``spade/Program-v0`` for all
others, and has no other effect.
"""

import spade_gym.ctrl_c  # noqa: F401 - first: it covers the time that the other imports take
from spade_gym.envs.program_env import ProgramEnv
from spade_gym.envs.program_vector_env import ProgramVectorEnv
from spade_gym.envs.registration import register_bundled, register_pool
from spade_gym.envs.spaces import Unicode
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits

__all__ = [
    "Isolation",
    "Limits",
    "Manifest",
    "Pool",
    "Program",
    "ProgramEnv",
    "ProgramVectorEnv",
    "Unicode",
    "register_pool",
]
__version__ = "0.1.0"

register_bundled()
