"""What the figures were measured on: machine, system, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from netmesh._version import __version__

_CPU_FLAGS = ("sha_ni", "aes", "vaes", "avx2", "avx512f", "avx512bw", "avx512ifma", "adx", "bmi2")


def describe(core: int | None) -> dict[str, Any]:
    """The environment of a measurement whose workers run on ``core``."""
    return {
        "cpu": _cpu_field("model name") or platform.processor() or platform.machine(),
        "cpu_flags": _cpu_flags(),
        "cpus": os.cpu_count() or 1,
        "virtual": "hypervisor" in (_cpu_field("flags") or "").split(),
        "memory_bytes": _memory_bytes(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()).strip(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "governor": _read(f"/sys/devices/system/cpu/cpu{core or 0}/cpufreq/scaling_governor"),
        "worker_core": core,
        "load_before": load(),
    }


def load() -> float | None:
    """The load average of the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def source() -> dict[str, Any]:
    """The version of netmesh and the commit it runs from, when that is a checkout."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return {
        "version": __version__,
        "commit": commit or None,
        "changed": bool(changed) if commit else None,
    }


def now() -> str:
    """The time of day in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _git(*arguments: str) -> str:
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cpu_field(name: str) -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _cpu_flags() -> list[str]:
    present = set((_cpu_field("flags") or "").split())
    return [flag for flag in _CPU_FLAGS if flag in present]


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
