"""What can go wrong, and whose fault it is.

The hierarchy::

    SpadeError
    ├── ReplyError          the designer's reply holds no usable program
    ├── ManifestError       a manifest or pool entry is malformed
    ├── PoolError           a pool folder is damaged, or a name or digest is not in it
    ├── ProgramFault        the program failed while it was loaded or played
    │   ├── ProgramError        it raised, or returned something that is no step result
    │   ├── ProgramTimeout      it did not answer before its deadline
    │   └── ProgramCrash        its process died (crash, memory or CPU limit, forged frame)
    └── SandboxError        the sandbox itself is broken; never scored, always raised
        └── IsolationUnavailable   no sufficiently strong isolation on this machine

A :class:`ProgramFault` belongs to the program (and so to its designer): in play it ends the episode as
``env_error`` or ``timeout`` and is never a reward for the agent. A :class:`SandboxError` belongs to this
machine or to this library.
"""

from __future__ import annotations


class SpadeError(Exception):
    """Base class of every error that this package raises on purpose."""


class ReplyError(SpadeError):
    """A reply from which no program could be read.

    Attributes:
        check: The stage that failed: ``extract``, ``syntax`` or ``contract``.
    """

    def __init__(self, message: str, *, check: str) -> None:
        super().__init__(message)
        self.check = check


class ManifestError(SpadeError):
    """A manifest with a missing, unknown or ill-typed field."""


class PoolError(SpadeError):
    """A pool folder that is damaged, or that lacks what was asked for."""


class ProgramFault(SpadeError):
    """The program, not the player and not the sandbox, failed.

    Attributes:
        reason: One word for tables: ``error``, ``timeout``, ``crash`` (a used-up limit of processor time
            among its causes), ``memory``, ``protocol``.
    """

    reason = "error"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class ProgramError(ProgramFault):
    """The program raised, or returned something that is no observation or step result."""


class ProgramTimeout(ProgramFault):
    """The program did not answer before its deadline and was killed."""

    reason = "timeout"


class ProgramCrash(ProgramFault):
    """The program's process died or broke the wire protocol and was killed."""

    reason = "crash"


class SandboxError(SpadeError):
    """The sandbox could not do its work; nothing may be concluded about the program."""


class IsolationUnavailable(SandboxError):
    """No isolation of the demanded strength works here; the message names the remedy."""
