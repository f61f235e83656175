"""Which token ids does a rendered chat have, when only its template may write control tokens?

A message may hold any text, ``<|im_end|>`` or ``</think>`` too. Such texts are cut in two before the message is
rendered (by noncharacters that it does not hold itself), and the rendered text is encoded piece by piece: no piece
holds a whole one, so the ids spell it as plain text and decode to what was said. Template and messages are otherwise
encoded as one text, as the tokenizer itself would. The control ids that come out are compared with those that the
template wrote; where others come out (a normaliser made them, or the texts around a message complete them), the message
is encoded by single characters, and if even that helps nothing, refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from spade_gym.models.base import ModelError

#: A code point that no text means anything by, and that templates pass on.
_CUT = "\ufdd0"
_CUTS = re.compile(f"{_CUT}+")
_UNPAIRED = re.compile("[\ud800-\udfff]")


class ChatTokenizer(Protocol):
    """What is needed of a tokenizer; those of transformers have it.

    Attributes:
        added_tokens_decoder: From an id to an added token, which has a ``content`` and says whether it is ``special``.
    """

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...  # noqa: D102

    def apply_chat_template(self, conversation: Any, **settings: Any) -> Any:
        """Render messages (with ``tokenize=False``) as text."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the ids of a text, in which added tokens are recognised."""

    def decode(self, token_ids: Any, *, skip_special_tokens: bool) -> str:
        """Return the text of ids."""


class TokenEncoder:
    """Encodes rendered text, piece by piece where it is cut.

    Control tokens are the special ones and every other added token that has a sign in it (``</think>``,
    ``<tool_call>``), but for white space and whole words, which mean only themselves.

    Args:
        tokenizer: Of the model.

    Attributes:
        control_ids: Ids of the control tokens.
        digest: sha256 of all that decides about ids.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        added = {token.content: (number, token) for number, token in tokenizer.added_tokens_decoder.items()}
        control = {text: number for text, (number, token) in added.items() if token.special or _has_sign(text)}
        self.control_ids = frozenset(control.values())
        self._control = control
        self._any = _pattern(control)
        self._special = _pattern(text for text in control if added[text][1].special)
        self._tokenizer = tokenizer
        self._encode, description = _encoding(tokenizer)
        self.digest = hashlib.sha256(description.encode()).hexdigest()

    # ---- contents

    def cut_for(self, contents: Sequence[str]) -> str:
        """Return a text that marks cuts: longer than any run of the same code point in these contents."""
        runs = (len(run) for content in contents if _CUT in content for run in _CUTS.findall(content))
        return _CUT * (1 + max(runs, default=0))

    def neutral(self, content: str, cut: str, *, own: bool = False) -> str:
        """Return a content with a cut inside every control text.

        Unpaired surrogates, which no tokenizer takes, become U+FFFD.

        Args:
            content: What a message says.
            cut: From ``cut_for``.
            own: It is what the model said itself: only special tokens are cut, its think and tool tags stay.
        """
        if not content.isascii():
            content = _UNPAIRED.sub("\ufffd", content)
        pattern = self._special if own else self._any
        return pattern.sub(lambda match: match[0][0] + cut + match[0][1:], content)

    def exploded(self, content: str, cut: str) -> str:
        """Return a content with cuts between all its characters and at its ends; "" stays."""
        return cut + cut.join(_UNPAIRED.sub("\ufffd", content)) + cut if content else ""

    # ---- ids

    def encode(self, text: str, cut: str = "") -> list[int]:
        """Return the ids of a rendered text, each piece between cuts for itself."""
        if not cut or cut not in text:
            return self._encode(text)
        return [number for piece in text.split(cut) if piece for number in self._encode(piece)]

    def encode_after(self, control: str, text: str, cut: str = "") -> list[int]:
        """Return the ids that a text has after a control text ("" for none), which may swallow white space."""
        if not control:
            return self.encode(text, cut)
        ids = self.encode(control + text, cut)
        return ids[1:] if ids[:1] == [self._control[control]] else self.encode(text, cut)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens included."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def controls(self, ids: Sequence[int]) -> list[int]:
        """Return the control ids among ids, in order."""
        if self.control_ids.isdisjoint(ids):
            return []
        return [number for number in ids if number in self.control_ids]

    def written(self, text: str, cut: str = "") -> list[int]:
        """Return the control ids that a rendered text spells out, in order; never across a cut."""
        pieces = text.split(cut) if cut else [text]
        return [self._control[found] for piece in pieces for found in self._any.findall(piece)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each control text in a text."""
        return [match.span() for match in self._any.finditer(text)]

    def id_of(self, text: str) -> int | None:
        """Return the id of a control text, or ``None`` when it is none."""
        return self._control.get(text)


def refused(contents: Sequence[str]) -> ModelError:
    """Say that contents cannot be encoded without control tokens."""
    quoted = ", ".join(repr(content[:100]) for content in contents)
    return ModelError(
        "this tokenizer reads control tokens out of the plain text of a message, even character by character: "
        f"{quoted}; play this model through an engine that makes its own tokens (openai:…)"
    )


def _has_sign(text: str) -> bool:
    return any(not character.isalnum() and not character.isspace() for character in text)


def _pattern(texts: Any) -> re.Pattern[str]:
    """Match the longest of some texts; nothing when there are none."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, ordered)) or "(?!)")


def _encoding(tokenizer: ChatTokenizer) -> tuple[Callable[[str], list[int]], str]:
    """Return the fastest way to encode a text, and all that decides about ids.

    Fast tokenizers of transformers are called underneath their Python layer (a third of the time), and as a copy:
    padding and truncation are settings of the shared object, left on by whoever used it last.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        added = {number: token.content for number, token in sorted(tokenizer.added_tokens_decoder.items())}
        return lambda text: tokenizer.encode(text, add_special_tokens=False), f"{type(tokenizer).__qualname__} {added}"
    own = type(backend).from_str(backend.to_str())
    own.no_padding()
    own.no_truncation()
    encode = own.encode
    return lambda text: encode(text, add_special_tokens=False).ids, own.to_str()
