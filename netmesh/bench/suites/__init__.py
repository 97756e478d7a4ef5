"""The suites of the report, one module each."""

from __future__ import annotations

from netmesh.bench.model import Suites
from netmesh.bench.suites import (
    announces,
    bulk,
    control,
    e2e,
    identities,
    links,
    lxmf,
    messages,
    packets,
    published,
    resources,
    stamps,
    transport,
)

ALL = Suites(
    (
        control.SUITE,
        messages.SUITE,
        packets.SUITE,
        resources.SUITE,
        announces.SUITE,
        identities.SUITE,
        links.SUITE,
        stamps.SUITE,
        transport.SUITE,
        e2e.SUITE,
        bulk.SUITE,
        lxmf.SUITE,
        published.SUITE,
    )
)
"""Every suite, in the order of the report."""
