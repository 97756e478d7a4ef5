"""The simulator: many engines in one process, on media and with clocks that a seed decides.

Time is virtual, and every random choice (losses, delays, keys) comes from a stream that the
seed and a name define. So a run can be repeated byte for byte: :attr:`Simulation.digest` is
the same for the same seed and the same calls, in any process. After each step the simulator
checks what must always hold (tables within their limits, each operation ends once, no frame
vanishes without a reason, and at the end: no memory is lost); what does not hold raises
:class:`SimulationError` with the command that repeats it.

* :class:`Simulation` has nodes, media and the clock.
* :class:`SimNode` is an :class:`netmesh.engine.Engine` with all its methods, on a medium.
* :class:`Medium` has rate, delay, jitter, loss, duplication, reordering, corruption, cuts.
* :class:`Network` brings a :class:`Topology` (:func:`chain`, :func:`star`, :func:`grid`,
  :func:`random_network`, :func:`cells`, :func:`roaming`) to life and measures it beside what
  physics allows.
* A scenario is a function that takes a simulation; :func:`sweep` runs it under many seeds,
  and so does ``python -m netmesh.sim``.

Example:
    >>> from netmesh.events import PacketReceived
    >>> with Simulation(seed=7) as sim:
    ...     air = sim.medium("air", rate_bps=9600, delay_s=0.01, loss=0.1)
    ...     alice, bob = sim.node("alice"), sim.node("bob")
    ...     for node in (alice, bob):
    ...         interface = node.connect(air)
    ...     inbox = bob.listen(sim.identity("bob"), "example.inbox", prove="all")
    ...     while not alice.paths():
    ...         operation, passed = bob.announce(inbox), sim.run(30)
    ...     end = alice.wait(alice.send(inbox, b"hello"))
    ...     received = [e.data for e in bob.events() if isinstance(e, PacketReceived)]
    >>> end.ok, received
    (True, [b'hello'])
"""

from netmesh.sim._medium import Medium, MediumStats
from netmesh.sim._node import NodeStats, SimNode
from netmesh.sim._scenario import (
    Outcome,
    Scenario,
    find_scenario,
    registered,
    run_scenario,
    scenario,
    sweep,
)
from netmesh.sim._simulation import Simulation, SimulationError, SimulationStats
from netmesh.sim.networks import Delivery, Network, NetworkFigures, Route
from netmesh.sim.sweeps import Spread, SweepSummary, summarize
from netmesh.sim.topology import (
    Segment,
    Topology,
    cells,
    chain,
    grid,
    mixed,
    random_network,
    roaming,
    star,
)

__all__ = [
    "Delivery",
    "Medium",
    "MediumStats",
    "Network",
    "NetworkFigures",
    "NodeStats",
    "Outcome",
    "Route",
    "Scenario",
    "Segment",
    "SimNode",
    "Simulation",
    "SimulationError",
    "SimulationStats",
    "Spread",
    "SweepSummary",
    "Topology",
    "cells",
    "chain",
    "find_scenario",
    "grid",
    "mixed",
    "random_network",
    "registered",
    "roaming",
    "run_scenario",
    "scenario",
    "star",
    "summarize",
    "sweep",
]
