"""When messages are tried again, and what each attempt does, against upstream's decisions."""

from __future__ import annotations

from typing import Any

import pytest

from golden import name_of, vectors

LOOK_S = 4.0
LINK_TIMEOUT_S = 12.0
REDISCOVERY_S = 0.5
FAILED = 255

NEAR = 2e-6
"""Times are whole microseconds, upstream's are rounded to them."""


@pytest.mark.parametrize("vector", vectors("lxmf", "medium_timing"), ids=name_of)
def test_the_slowest_interface_sets_the_waits(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `medium_timing` (LXMF 4.6)."""
    lowest, expected = vector["input"]["lowest_online_interface_bitrate"], vector["output"]
    wait, window = expected["path_request_wait_s"], expected["repeat_window_s"]
    assert impl.medium_path_timeout(lowest) == pytest.approx(expected["medium_path_timeout_s"])
    assert impl.mail_path_wait(lowest) == pytest.approx(wait, abs=NEAR)
    assert impl.mail_slow_path(lowest) is expected["slow_interface"]
    for since in (wait, window):
        for shift in (-0.001, 0.001):
            found = impl.mail_path_request(since + shift, lowest)
            assert found == (since + shift > window, since + shift < wait)
    assert impl.mail_path_request(None, lowest) == (True, False)
    assert impl.mail_path_request(1e300, lowest) == (True, False)


@pytest.mark.parametrize("vector", vectors("lxmf", "path_request_repeat"), ids=name_of)
def test_a_path_is_not_asked_for_too_often(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `path_request_repeat` (LXMF 4.6)."""
    lowest = vector["input"]["lowest_online_interface_bitrate"]
    asked_at = None
    for call in vector["output"]["calls"]:
        now = call["at_s"]
        since = None if asked_at is None else now - asked_at
        due, pending = impl.mail_path_request(since, lowest)
        assert due is call["sent"]
        if due:
            asked_at = now
            pending = impl.mail_path_request(0, lowest)[1]
        assert pending is call["pending_after"]


@pytest.mark.parametrize("vector", vectors("lxmf", "attempt_schedule"), ids=name_of)
def test_attempts_follow_the_medium(impl: Any, vector: dict[str, Any]) -> None:
    """Vectors `attempt_schedule` (LXMF 4.6)."""
    given, expected = vector["input"], vector["output"]
    lowest, after = given["lowest_online_interface_bitrate"], given["after_path_request"]
    bitrate = lowest if after or not given["path_known"] else given["next_hop_bitrate"]
    round_trip = expected["destination_round_trip_s"]
    assert impl.mail_round_trip(bitrate) == pytest.approx(round_trip, abs=NEAR)
    assert impl.mail_slow_path(bitrate) is expected["slow_path"]
    for jitter, wait in ((0, expected["wait_min_s"]), (1, expected["wait_max_s"])):
        found = impl.mail_schedule(
            bitrate, given["delivery_attempts"], after_path_request=after, jitter=jitter
        )
        assert found[0] == pytest.approx(wait, abs=NEAR)
        assert found[1] == expected["max_delivery_attempts"]
        assert found[2] == pytest.approx(expected["receipt_timeout_s"], abs=5 * NEAR)


class Outgoing:
    """One message whose packets and links are all lost, decided on by pure functions."""

    def __init__(self, impl: Any, given: dict[str, Any]) -> None:
        self.impl, self.given = impl, given
        self.lines: list[tuple[float, str]] = []
        self.attempts, self.attempts_max, self.due_at = 0, 5, -1.0
        self.awaiting_path = self.sent_on_path = self.path_asked = self.has_path = False
        self.asked_at: float | None = None
        self.link_at: float | None = None
        self.rediscover_at: float | None = None
        self.failed = False

    @property
    def lowest(self) -> int:
        lowest: int = self.given["lowest_online_interface_bitrate"]
        return lowest

    def note(self, now: float, action: str) -> None:
        self.lines.append((now, action))

    def schedule(self, now: float, *, after_path_request: bool = False) -> None:
        slowest = after_path_request or not self.has_path
        bitrate = self.lowest if slowest else self.given["next_hop_bitrate"]
        wait, self.attempts_max, _ = self.impl.mail_schedule(
            bitrate, self.attempts, after_path_request=after_path_request
        )
        self.due_at = now + wait
        self.awaiting_path |= after_path_request

    def gate(self, now: float) -> tuple[bool, bool]:
        since = None if self.asked_at is None else now - self.asked_at
        due, pending = self.impl.mail_path_request(since, self.lowest)
        return due, pending

    def ask(self, now: float) -> None:
        if self.gate(now)[0]:
            self.asked_at = now
            self.note(now, "request path")

    def begin(self) -> None:
        if self.given["method"] == 1 and not self.has_path:
            self.ask(0)
            self.schedule(0, after_path_request=True)

    def look(self, now: float) -> None:
        if self.link_at is not None and now < self.link_at + LINK_TIMEOUT_S:
            return
        if self.link_at is not None:  # it never came up: nothing else in this pass
            self.link_at = None
            if not self.path_asked:
                self.path_asked = True
                self.ask(now)
            if self.attempts + 1 < self.attempts_max:
                self.schedule(now)
        elif now > self.due_at or (self.awaiting_path and self.has_path):
            self.awaiting_path = False
            if self.given["method"] == 1:
                self.packet(now)
            else:
                self.link(now)

    def packet(self, now: float) -> None:
        step = self.impl.mail_packet_step(
            self.attempts,
            self.attempts_max,
            has_path=self.has_path,
            sent_on_path=self.sent_on_path,
        )
        self.failed = step == "fail"
        if step == "send packet":
            self.attempts += 1
            self.sent_on_path = self.has_path
            self.schedule(now)
        elif not self.failed:
            self.attempts += 1
            self.sent_on_path = False
        if step == "request path":
            self.ask(now)
            self.schedule(now, after_path_request=True)
        elif step == "rediscover":
            self.rediscover(now)
        else:
            self.note(now, step)

    def rediscover(self, now: float) -> None:
        self.awaiting_path = True
        self.due_at = now + self.impl.mail_path_wait(self.lowest)
        if not self.gate(now)[1]:
            self.has_path = False
            self.rediscover_at = now + REDISCOVERY_S
            self.note(now, "drop path")

    def link(self, now: float) -> None:
        self.attempts += 1
        self.schedule(now)
        step = self.impl.mail_link_step(self.attempts, self.attempts_max, has_path=self.has_path)
        self.failed = step == "fail"
        if step == "request path":
            self.ask(now)
            self.schedule(now, after_path_request=True)
        else:
            self.note(now, step)
            self.link_at = now if step == "open link" else None


@pytest.mark.parametrize("vector", vectors("lxmf", "outbound_timeline"), ids=name_of)
def test_a_message_that_is_never_proven_lives_as_upstream_has_it(
    impl: Any, vector: dict[str, Any]
) -> None:
    """Vectors `outbound_timeline` (LXMF 4.6): the decisions, one after the other."""
    given, expected = vector["input"], vector["output"]
    message = Outgoing(impl, given)
    ups = [event["t_s"] for event in given["path_events"]]
    message.has_path = 0 in ups
    message.begin()
    for half in range(240):
        now = half / 2
        if now == message.rediscover_at:
            message.asked_at = now
            message.note(now, "request path")
        came = now in ups and not message.has_path
        message.has_path |= came
        if not message.failed and (now % LOOK_S == 0 or (came and message.awaiting_path)):
            message.look(now)
    assert message.lines == [(line["t_s"], line["action"]) for line in expected["events"]]
    assert message.failed is (expected["final_state"] == FAILED)
    assert message.attempts == expected["attempts"]
    assert message.attempts_max == expected["max_delivery_attempts"]


def test_what_decisions_on_messages_refuse(impl: Any) -> None:
    for function in (impl.mail_round_trip, impl.mail_slow_path, impl.mail_path_wait):
        with pytest.raises(ValueError, match="bitrate"):
            function(-1)
        with pytest.raises(TypeError):
            function(1200.5)
    for since in (-1, float("nan")):
        with pytest.raises(ValueError, match="since"):
            impl.mail_path_request(since, 1200)
    for jitter in (-0.1, 1.1, float("inf")):
        with pytest.raises(ValueError, match="jitter"):
            impl.mail_schedule(1200, 1, jitter=jitter)
    with pytest.raises(ValueError, match="attempts"):
        impl.mail_schedule(1200, 2**32)
    with pytest.raises(TypeError):
        impl.mail_packet_step(1, 5)
    with pytest.raises(TypeError):
        impl.mail_link_step(1, 5, has_path=1)
