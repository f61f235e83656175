"""Does a task's environment have the spaces that the agent plays in? To be asked when the task is registered."""

from __future__ import annotations

from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.task import Task
from spade_gym.curriculum.task_environments import SpaceMismatch, TaskEnvironments
from spade_gym.errors import SpadeError


class SameSpaces:
    """A gate that makes the environment of every task before it enters the memory.

    Without it, other spaces are refused when the task is first played. Environments that are costly to make cost twice.

    Args:
        environments: Made with the arguments that ``CurriculumEnv`` gets.
    """

    def __init__(self, environments: TaskEnvironments) -> None:
        self._environments = environments

    def refuse(self, task: Task, memory: Memory) -> str | None:
        """Refuse a task whose environment cannot be made, or has other spaces."""
        try:
            self._environments.check(task)
        except SpaceMismatch as error:
            return f"other spaces ({error})"
        except (SpadeError, ValueError, TypeError) as error:
            return f"its environment cannot be made ({error})"
        return None
