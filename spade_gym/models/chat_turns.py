"""What do an answer and the messages after it add to a chat?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from spade_gym.models.base import Message, ModelError, Role
from spade_gym.models.chat_delta import Delta, Piece, rendered_piece
from spade_gym.models.chat_template import Following, TurnTemplate
from spade_gym.models.chat_tokens import TokenEncoder


class Turns:
    """What chats with the same settings add turn by turn; shared by them.

    Args:
        template: Found out for these settings.
        encoder: Of the model.
        keep_thinking: As in ``ChatFormat``.

    Attributes:
        closing: Ids that close an answer, its end token last; empty when the template writes none.
    """

    def __init__(self, template: TurnTemplate, encoder: TokenEncoder, keep_thinking: bool) -> None:
        self.template = template
        self.encoder = encoder
        self.closing = encoder.encode(template.closing)
        spans = encoder.spans(template.closing)
        self._after = template.closing[slice(*spans[-1])] if spans else ""
        self._keep_thinking = keep_thinking
        self._following: dict[tuple[str, ...], tuple[Following, Delta | None]] = {}
        self._headers: dict[tuple[str, str], list[int]] = {}

    def following(self, roles: tuple[str, ...]) -> tuple[Following, Delta | None]:
        """Return how messages of these roles follow an answer.

        Raises:
            ModelError: The template refuses them, or is not prefix-stable.
        """
        if roles not in self._following:
            following = self.template.following(roles)
            if self._keep_thinking:
                following = Following(following.layout, None)
            delta = None if following.layout is None else Delta(following.layout, self.encoder, self._after)
            self._check(roles, delta)
            self._following[roles] = (following, delta)
        return self._following[roles]

    def _check(self, roles: tuple[str, ...], delta: Delta | None) -> None:
        """Compare a short chat encoded turn by turn with the same chat encoded at once."""
        messages = [Message(cast("Role", role), "x") for role in roles]
        before = self.template.answered(roles)
        whole = self.encoder.encode(before + self.template.tail(roles, ["x"] * len(roles)))
        piece = self.piece(delta, messages)
        grown = [*self.encoder.encode(before), *piece.body, *piece.generation]
        if self.encoder.decode(grown) != self.encoder.decode(whole):
            raise ModelError(
                f"the tokenizer of {self.template.name} encodes a chat turn by turn as "
                f"{self.encoder.decode(grown)[-200:]!r}, but at once as {self.encoder.decode(whole)[-200:]!r}; it "
                "changes texts where they are taken apart, so chats cannot grow: use an engine that makes its own "
                "tokens (openai:…)"
            )

    def piece(self, delta: Delta | None, messages: Sequence[Message]) -> Piece:
        """Return the ids that messages add after an answer and its closing.

        Raises:
            ModelError: A content cannot be encoded without control tokens, or the template refuses it.
        """
        contents = [message.content for message in messages]
        if delta is not None:
            return delta.piece(contents)
        roles = [message.role for message in messages]
        return rendered_piece(
            lambda put, generation: self.template.tail(roles, put, generation),
            contents,
            self.encoder,
            after=self._after,
        )

    def header(self, piece: Piece, text: str) -> list[int]:
        """Return the ids of what stands between the body of a piece and an earlier answer to it."""
        key = (piece.control, piece.lead + text)
        if key not in self._headers:
            self._headers[key] = self.encoder.encode_after(*key)
        return self._headers[key]
