"""A model and a trainer of one's own in the self-play cycle: a table of what was shown, learnt by REINFORCE.

pip install spade-gym
python examples/third_party_trainer.py

A package offers its trainer by an entry point of spade_gym.trainers (docs/plugins.md); here the run is handed it.
"""

import dataclasses
import json
import tempfile

import numpy as np

from spade_gym.models.base import Completion
from spade_gym.selfplay import recipe as told
from spade_gym.selfplay.run import open_run
from spade_gym.selfplay.selfplay import selfplay

WORDS = ["blow whistle", "close gate", "turn foundry", "turn market", "turn sawmill", "show green"]
ACTIONS = np.array([rf"\boxed{{{words}}}" for words in WORDS])


class Table:
    """Chances of each action, by what was shown last: the model that draws from them, and its trainer."""

    name, chat_format, max_context = "table", None, None
    rows, waiting = {}, []

    def chances(self, shown):
        """Return the chance of each action."""
        scores = np.exp(self.rows.setdefault(shown[-60:], np.zeros(len(ACTIONS))))
        return scores / scores.sum()

    def submit(self, request):
        """Draw an action (model)."""
        chances = self.chances(request.messages[-1].content)
        action = np.random.default_rng(request.seed).choice(ACTIONS, p=chances)
        self.waiting.append(Completion(request.key, str(action), "stop"))

    def collect(self):
        """Hand over what was drawn (model)."""
        answers, self.waiting = self.waiting, []
        return answers

    def close(self):
        """Forget it (model)."""
        self.waiting = []

    def update(self, batch):
        """Make what was done in the better plays of a group more likely (trainer)."""
        for item, play in zip(batch.trajectories, batch.plays, strict=True):
            for turn in play.turns:
                step = (turn.completion == ACTIONS) - self.chances(turn.observation)
                self.rows[turn.observation[-60:]] += 0.1 * item.advantage * step
        return {"won": float(np.mean([play.won for play in batch.plays]))}

    def save(self, folder):
        """Write the table (trainer)."""
        (folder / "table.json").write_text(json.dumps({shown: row.tolist() for shown, row in self.rows.items()}))

    def load(self, folder):
        """Read the table (trainer)."""
        self.rows = {shown: np.array(row) for shown, row in json.loads((folder / "table.json").read_text()).items()}


recipe = told.Recipe(
    cycle=told.CycleSettings(rollouts=40, regenerate_every=40, environments=1, plays=48, hint_plays=0),
    designer=told.DesignerSettings(name="registry:SignalBox,", corpus="none", train=False),
    hints=told.HintSettings(source="manifest"),
)
with tempfile.TemporaryDirectory() as folder, open_run(recipe, folder, agent=(table := Table())) as run:
    selfplay(dataclasses.replace(run, trainer=table))
    won = [json.loads(row["metrics"])["won"] for row in run.store.rows("SELECT metrics FROM updates ORDER BY rollout")]
print(f"won: {np.mean(won[:5]):.0%} of the plays of the first five rollouts, {np.mean(won[-5:]):.0%} of the last five")
assert np.mean(won[-5:]) > np.mean(won[:5]) + 0.4
