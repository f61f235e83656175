"""What does a chat template write around messages, and what does it do to earlier answers?

Found by rendering short conversations with the tokenizer's own ``apply_chat_template`` and comparing the texts; no
family is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spade_gym.models.base import ModelError
from spade_gym.models.chat_tokens import ChatTokenizer, TokenEncoder

#: Templates that write the date write this one (the default of Llama 3), so that prompts do not change overnight.
_TODAY = "26 Jul 2024"
#: Stands in for the function that other templates call; transformers passes them no function.
_STRFTIME_NOW = """{%- macro strftime_now(format) -%}
{{ format | replace("%d", "26") | replace("%m", "07") | replace("%Y", "2024") | replace("%y", "24")
   | replace("%B", "July") | replace("%b", "Jul") | replace("%A", "Friday") | replace("%a", "Fri")
   | replace("%H", "00") | replace("%M", "00") | replace("%S", "00") }}
{%- endmacro -%}
"""
_ASKED, _THOUGHT, _ANSWER = "Qz1asked", "Qz2thought", "Qz3answer"
_THINKING = f"<think>\n{_THOUGHT}\n</think>\n\n"
#: Contents that a template might change: white space, none at all, signs that JSON and HTML escape, other scripts.
_CONTENTS = ("x", " \n x y\n\n", "", '{"a": "<b> & \\"}\n', "é☃\u200b")
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string", "description": "Where."}}},
    },
}

Pair = tuple[str, str]


class ChatTemplate:
    """Renders messages with a tokenizer's template.

    Args:
        tokenizer: Of the model.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        source = getattr(tokenizer, "chat_template", None)
        dated = isinstance(source, str) and "strftime_now" in source
        self._settings = {"chat_template": f"{_STRFTIME_NOW}{source}"} if dated else {}

    def render(
        self, pairs: Sequence[Pair], *, tools: Sequence[Mapping[str, Any]], thinking: bool | None, generation: bool
    ) -> str:
        """Return the text of messages.

        Args:
            pairs: Role and content of each.
            tools: Schemas in OpenAI form.
            thinking: For templates that know ``enable_thinking`` (or ``thinking``); ``None`` says nothing.
            generation: Whether to open an answer at the end.

        Raises:
            ModelError: There is no template, or it refuses these messages.
        """
        switches = {} if thinking is None else {"enable_thinking": thinking, "thinking": thinking}
        try:
            text = self._tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in pairs],
                tools=[dict(tool) for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=generation,
                date_string=_TODAY,
                **self._settings,
                **switches,
            )
        except Exception as error:  # a template is somebody's program, and may raise anything
            roles = ", ".join(role for role, _ in pairs)
            raise ModelError(
                f"the chat template of {self.name} cannot render messages of the roles {roles}: {error}; "
                "give the tokenizer a template (chat_template) that takes them"
            ) from error
        return str(text)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the contents of messages stand in their rendered text.

    Attributes:
        texts: What the template writes before, between and after the contents; one more than contents.
        generation: The end of the last text: what opens an answer.
        strips: Whether the template strips white space from the contents.
    """

    texts: tuple[str, ...]
    generation: str
    strips: bool


@dataclass(frozen=True, slots=True)
class Following:
    """How messages of certain roles follow an answer.

    Attributes:
        layout: Of their text after the answer's closing; ``None`` when the template does more with a content than to
            strip it: then it is rendered anew each time.
        header: What stands before an earlier answer once they follow it and its thinking is left out; ``None`` when
            the answer stays as it was given.
    """

    layout: Layout | None
    header: str | None


class TurnTemplate:
    """What a template writes in a chat with or without tools and thinking.

    Args:
        template: Renders.
        encoder: Knows control texts.
        tools: Whether the chat has tools.
        thinking: As in ``ChatTemplate.render``.

    Attributes:
        generation: What opens an answer.
        closing: What closes one: up to its end token; "" when the template writes none.

    Raises:
        ModelError: The template changes what stands before when messages are added.
    """

    def __init__(self, template: ChatTemplate, encoder: TokenEncoder, *, tools: bool, thinking: bool | None) -> None:
        self._template = template
        self._tools = (_TOOL,) if tools else ()
        self._thinking = thinking
        self._base = self._render([("user", _ASKED)], generation=False)
        self.generation = self._after_base(self._render([("user", _ASKED)], generation=True), "the generation prompt")
        whole = self._render([("user", _ASKED), ("assistant", _ANSWER)], generation=False)
        rest = self._split(whole, "an answer")[1]
        controls = encoder.spans(rest)
        self.closing = rest[: controls[0][1]] if controls else ""

    # ---- opening

    def opening(self, roles: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> Layout | None:
        """Return the layout of a chat's first messages, or ``None`` when it depends on their contents."""

        def text(contents: Sequence[str], generation: bool = True) -> str:
            pairs = list(zip(roles, contents, strict=True))
            return self._template.render(pairs, tools=tools, thinking=self._thinking, generation=generation)

        return self._layout(roles, text)

    # ---- following

    def following(self, roles: tuple[str, ...]) -> Following:
        """Return how messages of these roles follow an answer.

        Raises:
            ModelError: The template refuses them, leaves them out, or changes what stands before them.
        """
        markers = [f"Qz{index}said" for index in range(len(roles))]
        header = self._header(_ANSWER, roles, markers)
        if not (self.generation.startswith(header) or header.startswith(self.generation)):
            raise ModelError(
                f"the chat template of {self.name} opens an answer with {self.generation!r} and writes an earlier one "
                f"after {header!r}: what was sampled would stand elsewhere; use a template where one begins the other"
            )
        forced = self.generation[len(header) :]
        if "</think>" in forced:  # thinking is off: the prompt holds an empty think block
            earlier = self._header(forced + _ANSWER, roles, markers)
            changed = not earlier.startswith(self.generation)
        else:
            earlier = self._header(_THINKING + _ANSWER, roles, markers)
            changed = _THOUGHT not in earlier
        layout = self._layout(roles, lambda contents, generation=True: self.tail(roles, contents, generation))
        return Following(layout, earlier if changed else None)

    def tail(self, roles: Sequence[str], contents: Sequence[str], generation: bool = True) -> str:
        """Return the text of messages after an answer and its closing.

        Raises:
            ModelError: The template changes what stands before them.
        """
        rest = self._split(self._turn(_ANSWER, roles, contents, generation), f"messages of the roles {roles}")[1]
        if not rest.startswith(self.closing):
            raise self._unstable("what closes an answer", self.closing, rest)
        return rest[len(self.closing) :]

    def answered(self, roles: Sequence[str]) -> str:
        """Return the text of a question and its answer, closing included, that messages of these roles follow."""
        before = self._header(_ANSWER, roles, [f"Qz{index}said" for index in range(len(roles))])
        return self._base + before + _ANSWER + self.closing

    @property
    def name(self) -> str:
        """The tokenizer's name."""
        return self._template.name

    def _header(self, answer: str, roles: Sequence[str], contents: Sequence[str]) -> str:
        """Return what stands between a question and an answer that messages follow."""
        return self._split(self._turn(answer, roles, contents, True), f"messages of the roles {', '.join(roles)}")[0]

    def _turn(self, answer: str, roles: Sequence[str], contents: Sequence[str], generation: bool) -> str:
        pairs = [("user", _ASKED), ("assistant", answer), *zip(roles, contents, strict=True)]
        return self._render(pairs, generation=generation)

    def _render(self, pairs: Sequence[Pair], *, generation: bool) -> str:
        return self._template.render(pairs, tools=self._tools, thinking=self._thinking, generation=generation)

    def _split(self, text: str, added: str) -> tuple[str, str]:
        """Return what stands between the question and the answer, and what stands after the answer."""
        before, found, after = self._after_base(text, added).partition(_ANSWER)
        if not found:
            raise ModelError(f"the chat template of {self.name} leaves out an answer; it cannot be used for chats")
        return before, after

    def _after_base(self, text: str, added: str) -> str:
        if not text.startswith(self._base):
            raise self._unstable(f"what stands before {added}", self._base, text)
        return text[len(self._base) :]

    def _unstable(self, what: str, expected: str, found: str) -> ModelError:
        same = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), len(found))
        return ModelError(
            f"the chat template of {self.name} is not prefix-stable: when messages are added, {what} changes from "
            f"{expected[same : same + 60]!r} to {found[same : same + 60]!r} (after {expected[:same][-40:]!r}); chats "
            "only grow, so it would never see what was sampled; give the tokenizer a template that only appends"
        )

    def _layout(self, roles: Sequence[str], render: Callable[..., str]) -> Layout | None:
        markers = [f"Qz{index}said" for index in range(len(roles))]
        text, shorter = render(markers), render(markers, False)
        if not text.startswith(shorter):
            raise self._unstable("what stands before the generation prompt", shorter, text)
        for role, marker in zip(roles, markers, strict=True):
            if marker not in text:
                raise ModelError(f"the chat template of {self.name} leaves out messages of the role {role!r}")
        texts, rest = [], text
        for marker in markers:
            before, _, rest = rest.partition(marker)
            texts.append(before)
        texts.append(rest)
        generation = text[len(shorter) :]
        for strips in (False, True):
            layout = Layout(tuple(texts), generation, strips)
            if rest.endswith(generation) and self._holds(layout, render):
                return layout
        return None

    def _holds(self, layout: Layout, render: Callable[..., str]) -> bool:
        """Whether rendering other contents gives the same texts around them."""
        for content in _CONTENTS:
            put = content.strip() if layout.strips else content
            try:
                if render([content] * (len(layout.texts) - 1)) != put.join(layout.texts):
                    return False
            except ModelError:  # a content that the template refuses: it looks at contents
                return False
        return True
