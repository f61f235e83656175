"""Trainers for agents on programs: one subpackage each, found through the entry points ``spade_gym.learners``.

A trainer is a callable ``train(env_id, *, steps, seed, out, **options) -> TrainReport`` (see
:class:`spade_trainers.report.TrainReport`). Nothing heavy is imported before it is called.
"""
