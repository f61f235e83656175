from collections import Counter

import pytest

from spade_gym.programs.reply import program_from_source
from spade_gym.selfplay.environment import Environment
from spade_gym.selfplay.fixed_choice import FixedChoice

SOURCE = """
class {name}Env:
    def reset(self, seed=None):
        return "say", {{}}
    def step(self, action):
        return "", 0.0, True, False, {{}}
"""


def pool(size: int) -> list[Environment]:
    return [
        Environment(n, program_from_source(SOURCE.format(name=f"No{n}"), name=f"no{n}"), "Optimization", f"r{n}", 0)
        for n in range(size)
    ]


@pytest.mark.parametrize(("size", "count"), [(7, 3), (5, 5), (79, 8), (4, 3)])
def test_no_program_is_chosen_twice_in_a_rollout_and_each_once_before_any_again(size: int, count: int) -> None:
    choice = FixedChoice(pool(size), "uniform", seed=1)
    played: Counter[int] = Counter()
    for rollout in range(3 * size):
        chosen = [environment.index for environment in choice.choose(rollout, count)]
        assert len(set(chosen)) == len(chosen) == count
        played.update(chosen)
        assert max(played.values()) - min(played[n] for n in range(size)) <= (1 if size % count == 0 else 2)
    assert set(played) == set(range(size))


def test_a_pool_smaller_than_a_rollout_is_played_whole() -> None:
    choice = FixedChoice(pool(2), "uniform", seed=0)
    assert [environment.index for environment in choice.choose(0, 5)] == [0, 1]
