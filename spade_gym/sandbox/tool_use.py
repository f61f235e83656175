"""The base class of tool-use programs.

The host puts ``ToolUseBaseEnv`` into the namespace of a generated program, inside the jail; hence the
standard library only. The class owns the protocol (parsing calls, checking their arguments, revealing one
instruction after the other, grading the answer); a program owns the state, the tools and the criteria.

An error of the player (malformed call, unknown tool, wrong argument names) is an observation with reward 0.
An exception raised by a program's own tool or criterion is the program's fault and propagates.
Source: SPADE, arXiv:2608.19197, tool-use setting.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, ClassVar, NamedTuple, Self

from spade_gym.sandbox.tool_arguments import fit_arguments
from spade_gym.sandbox.tool_calls import CALL_FORMAT, ParsedCall, answers_match, parse_action

DEFAULT_MAX_TURNS = 25
FINAL_OBSERVATION = "The play is over. No further actions are accepted."

StepResult = tuple[str, float, bool, bool, dict[str, Any]]


class ToolSignature(NamedTuple):
    """Names of a tool method's arguments; ``open_ended`` if it takes ``**kwargs``."""

    accepted: tuple[str, ...]
    required: tuple[str, ...]
    open_ended: bool


class ToolUseBaseEnv:
    """Plays a conversation of several instructions that are fulfilled by calling tools.

    A program subclasses it, and its ``reset(seed)`` sets ``_tools``, ``_state``, ``_user_messages``,
    ``_message_criteria`` and, where it is not "done", ``_expected_answer``. Each tool is a method
    ``tool_<name>(**arguments) -> str``.

    Attributes:
        max_turns: Number of steps after which a play is truncated.
        turn_count: Steps taken since the reset.
    """

    max_turns: int
    turn_count: int
    _tools: Mapping[str, Any] | list[Any]
    _state: Any
    _user_messages: list[str]
    _message_criteria: list[Callable[..., Any]]
    _current_msg: int
    _expected_answer: Any
    _call_history: list[dict[str, Any]]
    # Doubly underscored throughout: programs define helpers with names such as _call and _info.
    __terminated: bool
    __truncated: bool
    __tool_signatures: ClassVar[Mapping[str, ToolSignature]] = {}

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Gives every attribute its default, for programs that never call ``super().__init__``."""
        env = super().__new__(cls)
        env.max_turns = DEFAULT_MAX_TURNS
        env._tools = {}
        env._state = {}
        env._user_messages = []
        env._message_criteria = []
        env._expected_answer = "done"
        env.__start_play()
        return env

    def __init__(self, max_turns: int | None = DEFAULT_MAX_TURNS, **kwargs: Any) -> None:
        """Sets the turn limit; further keyword arguments are accepted and ignored."""
        self.max_turns = DEFAULT_MAX_TURNS if max_turns is None else max_turns

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reads the signatures of the tools and makes ``reset`` begin a new play."""
        super().__init_subclass__(**kwargs)
        own = {
            name.removeprefix("tool_"): _tool_signature(method, skip=1)
            for name, method in vars(cls).items()
            if name.startswith("tool_") and isinstance(method, FunctionType)
        }
        cls.__tool_signatures = {**cls.__tool_signatures, **own}
        reset = vars(cls).get("reset")
        if isinstance(reset, FunctionType):
            setattr(cls, "reset", _starting_play(reset))  # noqa: B010 - mypy refuses assigning a method

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begins a new play; programs override it and build the instance from ``seed``."""
        self.__start_play()
        return (self._user_messages[0] if self._user_messages else ""), {}

    def step(self, action: str) -> StepResult:
        """Executes the calls of ``action`` in order, then grades its answer.

        Args:
            action: Text with tool calls, an ``<answer>``, or both.

        Returns:
            Observation, reward (1.0 once, for the accepted answer, otherwise 0.0), terminated, truncated
            and a dict with the numbers of completed and of all criteria.
        """
        if self.__terminated or self.__truncated:
            return FINAL_OBSERVATION, 0.0, self.__terminated, self.__truncated, self.__info()
        # Counted here alone, so that a program that counts in its tools as well is not cut short.
        turn = self.turn_count + 1
        calls, answer = parse_action(str(action))
        parts = [self.__call(call) for call in calls]
        if len(parts) > 1:
            parts = [
                f"[{i}] {call.name or 'malformed'}: {part}"
                for i, (call, part) in enumerate(zip(calls, parts, strict=True), 1)
            ]
        if answer is not None:
            parts.append(self.__grade(answer))
        elif not calls:
            parts.append(f"Error: no tool call and no answer found. Write {CALL_FORMAT} or <answer>...</answer>.")
        self.turn_count = turn
        reward = 1.0 if self.__terminated else 0.0
        if not self.__terminated and turn >= self.max_turns:
            self.__truncated = True
            parts.append("The limit of turns is reached. The play is over.")
        return _encodable("\n\n".join(parts)), reward, self.__terminated, self.__truncated, self.__info()

    def close(self) -> None:
        """Does nothing; there is nothing to release."""

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Returns fresh OpenAI-format schemas of the declared tools, in the declared order.

        Raises:
            TypeError: If the program's ``_tools`` holds something that is not a schema.
        """
        return [_normalised_schema(name, schema) for name, schema in self.__declared_tools()]

    @property
    def num_criteria(self) -> int:
        """Number of criteria of the instance."""
        return len(self._message_criteria)

    @property
    def current_criterion(self) -> int:
        """Index of the criterion that is checked next; ``num_criteria`` when all are complete."""
        return min(max(self._current_msg, 0), self.num_criteria)

    def evaluate_criterion(self, index: int) -> bool:
        """Evaluates one criterion on the present state, without any effect on the play.

        Raises:
            Exception: Whatever the program's criterion raises.
        """
        return bool(self.criterion_result(index))

    def criterion_result(self, index: int) -> Any:
        """Returns what a criterion returns, which should be a bool; raises whatever it raises."""
        criterion = self._message_criteria[index]
        return criterion(self._state) if _takes_state(criterion) else criterion()

    def __start_play(self) -> None:
        self.turn_count = 0
        self._current_msg = 0
        self._call_history = []
        self.__terminated = False
        self.__truncated = False

    def __info(self) -> dict[str, Any]:
        return {"completed": self.current_criterion, "total": self.num_criteria}

    def __call(self, call: ParsedCall) -> str:
        """Executes one call and returns its result, with the next instruction where one was completed."""
        if call.arguments is None:
            return f"Error: {call.error}."
        problem = self.__call_problem(call.name, call.arguments)
        if problem is not None:
            return f"Error: {problem}."
        arguments, misfits = fit_arguments(call.arguments, self.__parameters_of(call.name))
        if misfits:
            return f"Error: wrong arguments for {call.name!r}: {'; '.join(misfits)}."
        before = self._current_msg
        result = getattr(self, f"tool_{call.name}")(**arguments)
        if not isinstance(result, str):
            result = json.dumps(result, ensure_ascii=False)
        self._call_history.append({"name": call.name, "arguments": arguments, "result": result})
        # Programs in the released form move on in their own tools; a second move would skip an instruction.
        advanced = self._current_msg != before
        if not advanced and self.current_criterion < self.num_criteria:
            advanced = self.evaluate_criterion(self.current_criterion)
            self._current_msg += advanced
        return f"{result}{self.__revealed_after(result)}" if advanced else result

    def __revealed_after(self, result: str) -> str:
        if self._current_msg < len(self._user_messages):
            message = str(self._user_messages[self._current_msg])
            return "" if message in result else f"\n\nUser: {message}"
        if self.current_criterion < self.num_criteria:
            return "\n\nThe request is complete; there is another one."
        return f"\n\nAll requests are complete. Finish with {self.__answer_format()}."

    def __answer_format(self) -> str:
        return "<answer>done</answer>" if self.__target_answer() == "done" else "<answer>...</answer>"

    def __target_answer(self) -> str:
        return "done" if self._expected_answer is None else str(self._expected_answer)

    def __grade(self, answer: str) -> str:
        if self.current_criterion < self.num_criteria:
            done, total = self.current_criterion, self.num_criteria
            return f"Not all requests are complete ({done} of {total}). Go on with the current request."
        if not answers_match(answer, self.__target_answer()):
            return f"The answer is not accepted. Write {self.__answer_format()} with the right answer."
        self.__terminated = True
        return "The answer is accepted. The play is over."

    def __declared_tools(self) -> Iterator[tuple[str, Any]]:
        if isinstance(self._tools, Mapping):
            yield from self._tools.items()
            return
        for schema in self._tools:
            yield _function_part(schema).get("name", ""), schema

    def __parameters_of(self, name: str) -> Mapping[str, Any]:
        schema = next(schema for declared, schema in self.__declared_tools() if declared == name)
        parameters = _function_part(schema).get("parameters")
        return parameters if isinstance(parameters, Mapping) else {}

    def __call_problem(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Says why a call cannot be executed; None if it can."""
        schema = next((schema for declared, schema in self.__declared_tools() if declared == name), None)
        if schema is None:
            names = ", ".join(str(declared) for declared, _ in self.__declared_tools())
            return f"there is no tool {name!r}; the tools are: {names}"
        signature = self.__tool_signatures.get(name) or self.__instance_signature(name)
        if signature.open_ended:
            parameters = _function_part(schema).get("parameters") or {}
            properties = parameters.get("properties", [key for key in arguments if key != "self"])
            accepted = (*signature.accepted, *properties)
            required = (*signature.required, *parameters.get("required", ()))
        else:
            accepted, required = signature.accepted, signature.required
        unexpected = [key for key in arguments if key not in accepted]
        missing = [key for key in required if key not in arguments]
        if not unexpected and not missing:
            return None
        faults = [f"missing {', '.join(missing)}"] if missing else []
        faults += [f"unexpected {', '.join(unexpected)}"] if unexpected else []
        allowed = ", ".join(key if key in required else f"{key} (optional)" for key in dict.fromkeys(accepted))
        return f"wrong arguments for {name!r}: {'; '.join(faults)}. Its arguments are: {allowed or 'none'}"

    def __instance_signature(self, name: str) -> ToolSignature:
        method = getattr(self, f"tool_{name}", None)
        if not callable(method):
            raise NotImplementedError(f"the tool {name!r} is declared in _tools but there is no method tool_{name}")
        return _tool_signature(method)


def _encodable(text: str) -> str:
    """Replaces lone surrogates, which JSON escapes can smuggle in and no wire format can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _starting_play(reset: FunctionType) -> Callable[..., Any]:
    @functools.wraps(reset)
    def wrapper(self: ToolUseBaseEnv, *args: Any, **kwargs: Any) -> Any:
        self._ToolUseBaseEnv__start_play()  # type: ignore[attr-defined]
        return reset(self, *args, **kwargs)

    return wrapper


def _tool_signature(method: Callable[..., Any], skip: int = 0) -> ToolSignature:
    parameters = list(inspect.signature(method).parameters.values())[skip:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return ToolSignature(
        accepted=tuple(p.name for p in named),
        required=tuple(p.name for p in named if p.default is p.empty),
        open_ended=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def _takes_state(criterion: Callable[..., Any]) -> bool:
    function = criterion.__func__ if isinstance(criterion, MethodType) else criterion
    if isinstance(function, FunctionType):
        code, bound = function.__code__, int(function is not criterion)
        defaults = len(function.__defaults__ or ())
        return code.co_argcount - bound - defaults > 0 or bool(code.co_flags & inspect.CO_VARARGS)
    parameters = inspect.signature(criterion).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL or (p.default is p.empty and p.kind is not p.VAR_KEYWORD) for p in parameters)


def _function_part(schema: Any) -> Mapping[str, Any]:
    inner = schema.get("function", schema) if isinstance(schema, Mapping) else schema
    if not isinstance(inner, Mapping):
        raise TypeError(f"a tool schema must be a dict in the OpenAI format, got {type(schema).__name__}")
    return inner


def _normalised_schema(name: str, schema: Any) -> dict[str, Any]:
    function = copy.deepcopy(dict(_function_part(schema)))
    function.pop("type", None)  # flat schemas carry it next to the name
    function["name"] = name
    function.setdefault("description", "")
    parameters = function.get("parameters") or {}
    function["parameters"] = {"type": "object", "properties": {}, "required": [], **parameters}
    return {"type": "function", "function": function}
