"""Which token ids do messages add to a chat?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spade_gym.models.base import ModelError
from spade_gym.models.chat_template import Layout
from spade_gym.models.chat_tokens import TokenEncoder, refused


class Piece(NamedTuple):
    r"""Ids of messages.

    Attributes:
        body: Of the messages, up to their last control token: tokenizers never join what stands on its two sides.
        generation: Of the rest of the messages and what opens an answer.
        control: The text of that control token; "" when there is none, and ``body`` is all of the messages.
        lead: The rest of the messages ("\n" as a rule).
    """

    body: list[int]
    generation: list[int]
    control: str
    lead: str


class _Segment(NamedTuple):
    fixed: tuple[int, ...]
    texts: tuple[str, ...]
    controls: list[int]


class _End(NamedTuple):
    generation: str
    control: str
    lead: str


class Delta:
    """Encodes messages of a layout: what the template writes is encoded once, contents each time.

    Args:
        layout: Of the messages.
        encoder: Of the model.
        after: The control text before them; "" for none.
    """

    def __init__(self, layout: Layout, encoder: TokenEncoder, after: str = "") -> None:
        self._encoder = encoder
        self._strips = layout.strips
        *texts, last = layout.texts
        body, self._end = _ends(last, layout.generation, encoder)
        self._generation = encoder.encode_after(self._end.control, self._end.generation)
        probes = [str(index) for index in range(len(texts))]
        whole = encoder.encode_after(after, _joined((*texts, body), probes))
        self._compile(_apart((*texts, body), encoder), after)
        if self._ids(probes) != whole:  # a control token swallows white space, or the tokenizer joins beyond one
            self._compile(["", (*texts, body), ""], after)

    def _compile(self, parts: Sequence[str | tuple[str, ...]], after: str) -> None:
        first, *fixed = [part for part in parts if isinstance(part, str)]
        around = [part for part in parts if isinstance(part, tuple)]
        ids = [self._encoder.encode_after(after, first), *map(self._encoder.encode, fixed)]
        self._segments = [
            _Segment(tuple(before), texts, [number for text in texts for number in self._encoder.written(text)])
            for before, texts in zip(ids, around, strict=False)
        ]
        self._last = ids[-1]
        self._after = "" if first else after

    def piece(self, contents: Sequence[str]) -> Piece:
        """Return the ids of messages with these contents.

        Raises:
            ModelError: A content cannot be encoded without control tokens.
        """
        if self._strips:
            contents = [content.strip() for content in contents]
        return Piece(self._ids(contents), self._generation, self._end.control, self._end.lead)

    def _ids(self, contents: Sequence[str]) -> list[int]:
        encoder = self._encoder
        cut = encoder.cut_for(contents)
        neutral = [encoder.neutral(content, cut) for content in contents]
        ids: list[int] = []
        start, after = 0, self._after
        for fixed, texts, controls in self._segments:
            end = start + len(texts) - 1
            ids += fixed
            found = encoder.encode_after(after, _joined(texts, neutral[start:end]), cut)
            if encoder.controls(found) != controls:
                exploded = [encoder.exploded(content, cut) for content in contents[start:end]]
                found = encoder.encode_after(after, _joined(texts, exploded), cut)
                if encoder.controls(found) != controls:
                    raise refused(contents[start:end])
            ids += found
            start, after = end, ""
        ids += self._last
        return ids


def rendered_piece(
    render: Callable[[Sequence[str], bool], str],
    contents: Sequence[str],
    encoder: TokenEncoder,
    *,
    own: Sequence[bool] = (),
    after: str = "",
) -> Piece:
    """Return the ids of messages whose layout depends on their contents.

    Args:
        render: From contents, and whether to open an answer, to text.
        contents: Of the messages.
        encoder: Of the model.
        own: Which of them the model said itself; none by default.
        after: The control text before them; "" for none.

    Raises:
        ModelError: A content cannot be encoded without control tokens, or the template refuses it.
    """
    cut = encoder.cut_for(contents)
    said = list(zip(contents, own or [False] * len(contents), strict=True))
    neutral = [encoder.neutral(content, cut, own=own) for content, own in said]
    exploded = [
        put if own else encoder.exploded(content, cut) for put, (content, own) in zip(neutral, said, strict=True)
    ]
    apart = [put if own or not put else cut + put + cut for put, (_, own) in zip(neutral, said, strict=True)]
    controls = encoder.written(render(apart, False), cut)
    for put in (neutral, exploded):
        text, shorter = render(put, True), render(put, False)
        if not text.startswith(shorter):
            raise ModelError(
                f"the chat template changes earlier messages when it opens an answer: they end with {shorter[-60:]!r}, "
                f"and then with {text[-120:]!r}; give the tokenizer a template that only appends"
            )
        body, end = _ends(text, text[len(shorter) :], encoder)
        ids = encoder.encode_after(after, body, cut)
        if encoder.controls(ids) == controls:
            return Piece(ids, encoder.encode_after(end.control, end.generation), end.control, end.lead)
    raise refused(contents)


def _ends(text: str, generation: str, encoder: TokenEncoder) -> tuple[str, _End]:
    """Split a text that ends with a generation prompt: what stands before it, up to a last control token, and it."""
    shorter = text[: len(text) - len(generation)]
    spans = encoder.spans(shorter)
    start, end = spans[-1] if spans else (0, 0)
    lead = shorter[end:]
    if not spans or lead.strip():
        return shorter, _End(generation, "", "")
    return shorter[:end], _End(lead + generation, shorter[start:end], lead)


def _apart(texts: tuple[str, ...], encoder: TokenEncoder) -> list[str | tuple[str, ...]]:
    """Split texts around contents at control tokens: fixed texts, and between them the texts around contents."""
    spans = encoder.spans(texts[0])
    first = spans[-1][1] if spans else 0
    parts: list[str | tuple[str, ...]] = [texts[0][:first]]
    around = [texts[0][first:]]
    for text in texts[1:]:
        if not (spans := encoder.spans(text)):
            around.append(text)
            continue
        start, end = spans[0][0], spans[-1][1]
        parts += [(*around, text[:start]), text[start:end]]
        around = [text[end:]]
    if len(around) > 1:
        parts += [tuple(around), ""]
    elif around[0]:
        parts[-1] = f"{parts[-1]}{around[0]}"
    return parts


def _joined(texts: Sequence[str], contents: Sequence[str]) -> str:
    """Return texts with contents between them."""
    joined = texts[0]
    for content, text in zip(contents, texts[1:], strict=True):
        joined += content + text
    return joined
