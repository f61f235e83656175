"""Texts as vectors of a text-embedding model."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from spade_gym.envs.wrappers.text_spaces import need_text_observations
from spade_gym.errors import SpadeError

Embed = Callable[[str], npt.ArrayLike]


class SentenceModel:
    """A model of ``sentence-transformers``, loaded on first use; only its name is pickled.

    Args:
        name: Name or folder of the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._model: Any = None

    def __call__(self, text: str) -> npt.ArrayLike:
        """Return the embedding of a text.

        Raises:
            SpadeError: sentence-transformers is not installed.
        """
        if self._model is None:
            try:
                library = importlib.import_module("sentence_transformers")
            except ImportError as error:
                raise SpadeError(
                    f"EmbedObs with the model {self.name!r} needs sentence-transformers, which cannot be imported "
                    f'({error}): pip install "spade-gym[embed]". Or pass embed=<your own function of a text>.'
                ) from error
            self._model = library.SentenceTransformer(self.name, device="cpu")
        vector: npt.ArrayLike = self._model.encode(text, show_progress_bar=False)
        return vector

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_model": None}


class EmbedObs(gym.ObservationWrapper[npt.NDArray[np.float32], Any, str], RecordConstructorArgs):
    """Makes the observations of a text environment embeddings: ``Box(-inf, inf, (dimension,), float32)``.

    Args:
        env: An environment with text observations.
        embed: A function from a text to a vector of fixed length, or the name of a sentence-transformers model
            (extra ``embed``). Must be picklable if the environment is to be.
        cache_size: Embeddings that are remembered, at most; they are slow and observations recur.

    Raises:
        SpadeError: A model was named and sentence-transformers is not installed.
        TypeError: The observations are no texts.
        ValueError: ``embed`` gives no finite vector, or ``cache_size`` is negative.

    Example:
        >>> import gymnasium as gym, numpy as np, spade_gym
        >>> from spade_gym.envs.wrappers import EmbedObs
        >>> def letters(text):
        ...     return np.array([text.count("a"), text.count("b"), len(text)])
        >>> env = EmbedObs(gym.make("spade/BeaconWalk-v0"), letters)
        >>> env.observation_space
        Box(-inf, inf, (3,), float32)
    """

    def __init__(
        self,
        env: gym.Env[str, Any],
        embed: Embed | str = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        cache_size: int = 10_000,
    ) -> None:
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, embed=embed, cache_size=cache_size)
        super().__init__(env)
        need_text_observations(env, "EmbedObs")
        if cache_size < 0:
            raise ValueError(f"cache_size must be at least 0, got {cache_size!r}")
        self.embed: Embed = SentenceModel(embed) if isinstance(embed, str) else embed
        self.cache_size = cache_size
        self._cache: dict[str, npt.NDArray[np.float32]] = {}
        probe = np.asarray(self.embed("probe"), dtype=np.float32)
        if probe.ndim != 1 or probe.size == 0:
            raise ValueError(f"embed must return a vector, got an array of shape {probe.shape} for the text 'probe'")
        self.observation_space = Box(-np.inf, np.inf, probe.shape, np.float32)

    def observation(self, observation: str) -> npt.NDArray[np.float32]:
        """Return the embedding of a text: float32, shape (dimension,).

        Raises:
            ValueError: The embedding has another shape than the first one, or is not finite.
        """
        vector = self._cache.get(observation)
        if vector is None:
            vector = np.array(self.embed(observation), dtype=np.float32)
            if vector.shape != self.observation_space.shape or not np.isfinite(vector).all():
                raise ValueError(
                    f"embed must return finite vectors of shape {self.observation_space.shape}, got shape "
                    f"{vector.shape} (finite: {bool(np.isfinite(vector).all())}) for {observation[:60]!r}"
                )
            if self.cache_size:
                if len(self._cache) >= self.cache_size:
                    self._cache.clear()
                self._cache[observation] = vector
        return vector.copy()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}
