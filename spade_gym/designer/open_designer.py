"""Which designer a text means: ``recorded``, ``registry``, ``mutate:POOL``, ``model``, or a third party's."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, cast

from spade_gym import plugins
from spade_gym.designer.language_model_designer import LanguageModelDesigner
from spade_gym.designer.mutate import MutateDesigner
from spade_gym.designer.recorded import RecordedDesigner, read_replies, shipped_replies
from spade_gym.designer.registry import RegistryDesigner
from spade_gym.designer.request import Designer, DesignerError
from spade_gym.locate import locate
from spade_gym.models.base import LanguageModel
from spade_gym.plain_file import shown
from spade_gym.plugins import PluginError
from spade_gym.pool import Pool, registries
from spade_gym.programs.program import Program

#: The designers of this package, and what may follow their name after a colon.
BUILT_IN = {
    "recorded": "recorded (the shipped replies) or recorded:FOLDER",
    "registry": "registry (all bundled programs), registry:POOL or registry:NAME,NAME,…",
    "mutate": "mutate (mutants of the bundled programs), mutate:POOL or mutate:NAME,NAME,…",
    "model": "model (the language model of the run)",
}


def open_designer(spec: str, *, model: LanguageModel | None = None, **settings: Any) -> Designer:
    """Open a designer by name.

    Args:
        spec: ``recorded``, ``recorded:FOLDER``, ``registry``, ``registry:POOL``, ``registry:NAME,NAME,…`` (bundled
            programs, also of one name with a comma behind it), ``mutate``, ``mutate:registry``, ``mutate:POOL``,
            ``mutate:NAME,NAME,…``, ``model``; or ``NAME`` or ``NAME:TEXT`` of a plugin in the group
            ``spade_gym.designers``, whose entry point is a function from the text ("" without one) to a designer.
        model: The engine of the designer ``model``; the others have no use for it.
        settings: Further keyword arguments of the designer: ``max_changes`` of ``mutate``; ``sampling``, ``thinking``
            and ``prompts`` of ``model``; those that a plugin declares.

    Raises:
        DesignerError: The name is unknown, or the designer lacks what it needs.
        PluginError: A plugin cannot be loaded, or has the name of a built-in designer.
        PoolError: The pool is damaged.
        TypeError: The designer does not take one of the settings.
    """
    name, _, argument = spec.partition(":")
    offered = sorted({plugin.name for plugin in plugins.available("designers")})
    if name in BUILT_IN:
        if name in offered:
            raise PluginError(f"a plugin of spade_gym.designers has the name of the built-in {name!r}; uninstall it")
        return _built_in(name, argument, model, settings)
    if name in offered:
        return _plugin(name, argument, settings)
    raise DesignerError(_unknown(name, offered))


def _built_in(name: str, argument: str, model: LanguageModel | None, settings: dict[str, Any]) -> Designer:
    if name == "recorded":
        return RecordedDesigner(read_replies(argument) if argument else shipped_replies(), **settings)
    if name == "registry":
        return RegistryDesigner(_programs(argument), **settings)
    if name == "mutate":
        return MutateDesigner(_programs(argument), **settings)
    if argument:
        raise DesignerError(f"the designer 'model' takes nothing after its name, got {shown(argument)}")
    if model is None:
        raise DesignerError("the designer 'model' needs a language model; give one, or choose another designer")
    return LanguageModelDesigner(model, **settings)


def _programs(argument: str) -> Iterator[Program]:
    """The programs of a pool, those that are named, or those of all registries."""
    if "," in argument:
        yield from (locate(name.strip()) for name in argument.split(",") if name.strip())
        return
    if argument not in ("", "registry"):
        yield from Pool(argument)
        return
    for pool in registries().values():
        yield from pool


def _plugin(name: str, argument: str, settings: dict[str, Any]) -> Designer:
    """Have a plugin make its designer, and look at it briefly."""
    factory = cast("Callable[..., Designer]", plugins.load("designers", name))
    designer = factory(argument, **settings)
    if not callable(getattr(designer, "write", None)) or not isinstance(getattr(designer, "name", None), str):
        raise PluginError(
            f"the plugin {name!r} of spade_gym.designers must give a designer with a text 'name' and a method "
            f"'write', got {shown(designer)}"
        )
    return designer


def _unknown(name: str, offered: list[str]) -> str:
    known = [*BUILT_IN, *offered]
    near = difflib.get_close_matches(name, known, n=1)
    ask = f"; did you mean {near[0]!r}?" if near else ""
    plugin_names = f"; plugins: {', '.join(offered)}" if offered else ""
    return f"no designer {shown(name)}; there are {'; '.join(BUILT_IN.values())}{plugin_names}{ask}"
