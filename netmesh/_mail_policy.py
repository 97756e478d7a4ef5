"""How a message is to be delivered: by which ways, in which order, for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, final

from netmesh.constants import Method

__all__ = ["POLICIES", "MethodName", "Policy", "Step"]

MethodName = Literal["auto", "opportunistic", "direct", "propagated"]
"""The name of a ready-made policy, see :data:`POLICIES`."""

STEPS_MAX: Final = 4
ATTEMPTS_MAX: Final = 255
RETRY_WAIT_S: Final = 10.0
PACKETS_BEFORE_LINK: Final = 2

_WAYS: Final = (Method.OPPORTUNISTIC, Method.DIRECT, Method.PROPAGATED)


def _checked_seconds(value: float, name: str) -> float:
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
    return value


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One way to try, and for how long.

    It ends when its attempts are used up or its time is over, whichever comes first, and the
    next step of the policy begins. What it sent still counts: a proof that comes late delivers
    the message.
    """

    method: Method
    """OPPORTUNISTIC: packets; DIRECT: over a link; PROPAGATED: to a propagation node."""
    budget_s: float | None = None
    """How many seconds it has; None: as long as its attempts last."""
    attempts: int | None = None
    """How many packets are sent or links opened at most; looking for a path counts. None: as
    upstream does, five times a packet or four times a link, fewer on slow media."""

    def __post_init__(self) -> None:
        if self.method not in _WAYS:
            raise ValueError(
                f"method must be OPPORTUNISTIC, DIRECT or PROPAGATED, not {self.method!r}"
            )
        object.__setattr__(self, "method", Method(self.method))
        if self.budget_s is not None:
            _checked_seconds(self.budget_s, "budget_s")
        if self.attempts is not None and not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise ValueError(f"attempts must be from 1 to {ATTEMPTS_MAX}, not {self.attempts!r}")


@final
@dataclass(frozen=True, slots=True)
class Policy:
    """One to four steps, tried in their order until one succeeds.

    A step whose form is too small for the message is left out, and so is PROPAGATED while no
    propagation node is set; a message for which no step is left is refused when it is sent.
    OPPORTUNISTIC without a path is left out when the next step is DIRECT and a link is open.

    Example:
        >>> from netmesh.constants import Method
        >>> patient = Policy(
        ...     (
        ...         Step(Method.OPPORTUNISTIC, budget_s=60),
        ...         Step(Method.DIRECT, attempts=2),
        ...         Step(Method.PROPAGATED),
        ...     )
        ... )
        >>> [step.method.name for step in patient.steps]
        ['OPPORTUNISTIC', 'DIRECT', 'PROPAGATED']
    """

    steps: tuple[Step, ...]
    """The steps."""
    retry_wait_s: float = RETRY_WAIT_S
    """Seconds between attempts. Slow media take the longer waits of upstream whatever it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not 1 <= len(self.steps) <= STEPS_MAX:
            raise ValueError(f"a policy has 1 to {STEPS_MAX} steps, not {len(self.steps)}")
        _checked_seconds(self.retry_wait_s, "retry_wait_s")

    @classmethod
    def of(cls, method: MethodName | Method | Policy) -> Policy:
        """The policy that a name, a single method or a policy stands for. Raises ValueError."""
        if isinstance(method, Policy):
            return method
        if isinstance(method, Method):
            return cls((Step(method),))
        found = POLICIES.get(method)
        if found is None:
            raise ValueError(
                f"method must be one of {', '.join(POLICIES)}, a Method or a Policy, not {method!r}"
            )
        return found

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods of its steps."""
        return tuple(step.method for step in self.steps)


POLICIES: Final[Mapping[MethodName, Policy]] = MappingProxyType(
    {
        "auto": Policy(
            (
                Step(Method.OPPORTUNISTIC, attempts=PACKETS_BEFORE_LINK),
                Step(Method.DIRECT),
                Step(Method.PROPAGATED),
            )
        ),
        "opportunistic": Policy((Step(Method.OPPORTUNISTIC),)),
        "direct": Policy((Step(Method.DIRECT),)),
        "propagated": Policy((Step(Method.PROPAGATED),)),
    }
)
"""The policies by name. "auto": two packets, then links, then the propagation node if one is set;
the others use one method alone."""


def encoded(policy: Policy) -> tuple[tuple[int, int, int], ...]:
    """Its steps for the core: method, budget in microseconds, attempts; 0 stands for None."""
    return tuple(
        (int(step.method), int((step.budget_s or 0) * 1e6), step.attempts or 0)
        for step in policy.steps
    )
