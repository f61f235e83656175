"""How many training plays did the program cut off by failing?"""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback


class FaultCount(BaseCallback):  # type: ignore[misc,unused-ignore]
    """Counts faulty plays, and logs their number as ``program/faulty_plays``.

    Attributes:
        count: Faulty plays so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def _on_step(self) -> bool:
        self.count += sum(info.get("env_error", False) for info in self.locals["infos"])
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("program/faulty_plays", self.count)
