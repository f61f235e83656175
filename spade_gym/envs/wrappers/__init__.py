"""Wrappers that let agents without a language model play programs, and help those with one."""

from spade_gym.envs.wrappers.action_menu import ActionMenu, Menu, MenuError, menu_of
from spade_gym.envs.wrappers.boxed_action import BoxedAction
from spade_gym.envs.wrappers.embed_obs import EmbedObs
from spade_gym.envs.wrappers.hash_obs import HashedText, HashObs
from spade_gym.envs.wrappers.text_stack import TextStack
from spade_gym.envs.wrappers.token_multi_discrete import Bytes, TokenMultiDiscrete
from spade_gym.envs.wrappers.tool_call import ToolCall

__all__ = [
    "ActionMenu",
    "BoxedAction",
    "Bytes",
    "EmbedObs",
    "HashObs",
    "HashedText",
    "Menu",
    "MenuError",
    "TextStack",
    "TokenMultiDiscrete",
    "ToolCall",
    "menu_of",
]
