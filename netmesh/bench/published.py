"""The figures of the published LXMF-rs v0.10.1 performance report.

Measured by others on another machine (AMD EPYC 7763, Linux 6.17, rustc 1.98.0, Python
3.12.14): they are shown beside measurements of this machine, never mixed with them. Its
Python side ran without OpenSSL, so it stands next to the upstream stack with its internal
provider.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "LXMF-rs v0.10.1 performance report, dataset docs/performance/v0.10.1.json"
MACHINE = "AMD EPYC 7763, Linux 6.17, rustc 1.98.0, Python 3.12.14"


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of that report.

    Times in nanoseconds, variabilities in percent, resident memory in MiB. ``rust_best_ns``
    is the best of its five runs where the median hides two modes.
    """

    workload: str
    rust_ns: float
    python_ns: float
    rust_variability: float
    python_variability: float
    rust_rss_mib: float
    python_rss_mib: float
    rust_best_ns: float | None = None

    @property
    def ratio(self) -> float:
        """Python's time over Rust's, as published."""
        return self.python_ns / self.rust_ns


FIGURES = {
    "lxmf.decode": Figures("LXMF message decode", 225, 7.99e6, 0.95, 0.62, 37.6, 31.4),
    "lxmf.encode": Figures("LXMF message encode", 385, 2.10e6, 0.30, 0.35, 24.1, 31.0),
    "lxmf.decode.large": Figures("LXMF large message decode", 370, 7.96e6, 2.22, 0.10, 25.0, 31.0),
    "lxmf.encode.large": Figures("LXMF large message encode", 773, 2.12e6, 2.71, 0.34, 15.2, 31.0),
    "lxmf.decode.resource": Figures(
        "LXMF resource-sized message decode", 6400, 8.04e6, 5.72, 0.26, 6.5, 31.0, 1170
    ),
    "lxmf.encode.resource": Figures(
        "LXMF resource-sized message encode", 17940, 2.18e6, 13.99, 0.26, 5.9, 31.1, 13200
    ),
    "packet.pack": Figures("Reticulum packet pack", 24, 3990, 0.34, 0.23, 311.1, 36.9),
    "packet.unpack": Figures("Reticulum packet unpack", 47, 2380, 0.00, 0.04, 159.7, 40.8),
    "segment": Figures("Reticulum resource segmentation 16 KiB", 2090, 6370, 3.43, 1.10, 9.3, 34.8),
    "reassemble": Figures("Reticulum resource reassembly 16 KiB", 386, 942, 0.81, 1.06, 24.4, 55.9),
    "announce.create": Figures("Reticulum announce create", 20380, 2.10e6, 0.17, 0.72, 6.2, 31.7),
    "announce.validate": Figures("Reticulum announce validate", 48970, 8020, 1.03, 0.62, 6.0, 34.1),
    "announce.batch64": Figures(
        "Reticulum announce validate batch 64", 3.17e6, 507580, 0.13, 0.69, 5.8, 31.0
    ),
    "identity.sign": Figures("Reticulum identity sign", 26940, 2.10e6, 0.05, 2.40, 6.0, 31.1),
    "identity.verify": Figures("Reticulum identity verify", 47510, 7.82e6, 0.33, 0.42, 5.8, 31.5),
    "identity.encrypt": Figures(
        "Reticulum identity encrypt", 82830, 15.53e6, 0.13, 0.29, 5.9, 31.0
    ),
    "identity.decrypt": Figures(
        "Reticulum identity decrypt", 61910, 17.99e6, 0.10, 0.79, 5.9, 31.1
    ),
    "request.window": Figures(
        "Reticulum resource request window", 30, 4100, 0.66, 0.49, 247.9, 36.7
    ),
    "e2e.discovery": Figures("Cold discovery", 397.50e6, 2659.66e6, 0.32, 0.02, 81.5, 81.5),
    "e2e.link": Figures("Link setup", 179.79e6, 138.59e6, 1.85, 0.17, 81.4, 81.3),
    "e2e.direct": Figures("Direct delivery", 735.76e6, 453.36e6, 1.42, 0.22, 81.3, 81.3),
    "e2e.opportunistic": Figures(
        "Opportunistic delivery", 726.49e6, 453.55e6, 1.54, 0.42, 81.2, 81.4
    ),
    "e2e.resource": Figures("Resource delivery", 737.43e6, 1028.66e6, 1.36, 0.37, 81.3, 81.3),
}
"""By name; rows of the report refer to these names."""
