"""Do the declared tools match the methods that carry them out? Check ``tool_schema``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spade_gym.errors import ProgramFault
from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import script

_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
Parameter = dict[str, Any]


def check_tool_schema(context: Context) -> Iterator[Finding]:
    """Every declared tool has a method with the same arguments, and every schema is a sound one."""
    if not context.is_tool_use:
        return
    session = context.session()
    slot = session.open()
    try:
        session.reset(slot, SEEDS[0])
        tools, methods = session.tools(slot), session.tool_methods(slot)
    except ProgramFault as fault:
        yield failure("tool_schema", f"the tool schemas cannot be read: {fault}", fault=str(fault))
        return
    finally:
        session.close_slot(slot)
    if not tools:
        yield failure("tool_schema", "no tools are declared: reset must set self._tools", seed=SEEDS[0])
    names = [str(actions.function_of(tool).get("name", "")) for tool in tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield failure("tool_schema", f"the tool {name!r} is declared {names.count(name)} times", tool=name)
    for name, tool in zip(names, tools, strict=True):
        yield from _judge_tool(name, actions.function_of(tool), methods.get(name))
    for name in sorted(set(methods) - set(names)):
        yield warning("tool_schema", f"the method tool_{name} is not declared, so it cannot be called", tool=name)
    yield from _note_wrong_types(context, tools)


def _judge_tool(name: str, function: dict[str, Any], method: Sequence[Parameter] | None) -> Iterator[Finding]:
    parameters = function.get("parameters") or {}
    properties = parameters.get("properties", {}) if isinstance(parameters, dict) else None
    required = parameters.get("required", []) if isinstance(parameters, dict) else None
    if not name or not isinstance(properties, dict) or not isinstance(required, list):
        yield failure("tool_schema", f"the schema of {name!r} is no OpenAI function schema", tool=name, schema=function)
        return
    for key, kind in properties.items():
        problem = _type_problem(kind)
        if problem:
            yield failure("tool_schema", f"argument {key!r} of {name!r}: {problem}", tool=name, argument=key)
    unknown = [key for key in required if key not in properties]
    if unknown:
        message = f"{name!r} requires {', '.join(map(str, unknown))}, which its properties do not describe"
        yield failure("tool_schema", message, tool=name, required=unknown)
    if method is None:
        yield failure("tool_schema", f"the tool {name!r} is declared but there is no method tool_{name}", tool=name)
        return
    yield from _judge_arguments(name, list(properties), [str(key) for key in required], method)


def _type_problem(kind: object) -> str:
    if not isinstance(kind, dict):
        return f"a property must be an object such as {{'type': 'string'}}, got {kind!r}"
    declared = kind.get("type")
    if declared is None:
        return ""
    types = declared if isinstance(declared, list) else [declared]
    wrong = [item for item in types if item not in _JSON_TYPES]
    return f"{wrong[0]!r} is no JSON type; allowed are {', '.join(_JSON_TYPES)}" if wrong else ""


def _judge_arguments(
    name: str, properties: list[str], required: list[str], method: Sequence[Parameter]
) -> Iterator[Finding]:
    accepted = [row["name"] for row in method if row["kind"] not in ("var_positional", "var_keyword")]
    needed = [row["name"] for row in method if row["required"] and row["name"] in accepted]
    open_ended = any(row["kind"] == "var_keyword" for row in method)
    evidence = {"tool": name, "declared": properties, "required": required, "method": accepted, "needed": needed}
    if not open_ended and set(properties) - set(accepted):
        extra = ", ".join(sorted(set(properties) - set(accepted)))
        yield failure("tool_schema", f"{name!r} declares {extra}, which tool_{name} does not take", **evidence)
    hidden = sorted(set(needed) - set(properties))
    if hidden:
        message = f"tool_{name} needs {', '.join(hidden)}, which the schema of {name!r} does not declare"
        yield failure("tool_schema", message, **evidence)
    optional = sorted((set(needed) & set(properties)) - set(required))
    if optional:
        message = f"tool_{name} needs {', '.join(optional)}, but the schema of {name!r} does not require it"
        yield warning("tool_schema", message, **evidence)  # a call without it gets an error that names it
    strict = sorted(set(required) & (set(accepted) - set(needed)))
    if strict:
        message = f"the schema of {name!r} requires {', '.join(strict)}, though tool_{name} has a default"
        yield warning("tool_schema", message, **evidence)


def _note_wrong_types(context: Context, tools: Sequence[Any]) -> Iterator[Finding]:
    """A call against its own schema is the player's mistake; that a tool raises on it is only noted."""
    items = [(SEEDS[0], script([probe])) for probe in actions.wrong_typed_probes(tools)]
    plays = context.player().play_many(items, steps=1, origin="wrong_type", batch=8)
    failed = [play for play in plays if play.fault is not None]
    if failed:
        message = f"{len(failed)} calls with arguments of wrong types make a tool raise, for example: {failed[0].fault}"
        yield warning("tool_schema", message, count=len(failed), **failed[0].evidence())
