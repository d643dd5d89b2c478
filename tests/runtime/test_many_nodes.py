"""The model of data-parallel training on many nodes, against numbers worked out by hand."""

import json

import pytest

from benchmarks.cluster import nodes
from benchmarks.cluster.nodes import Network, Step, predicted, ring_seconds

FAST = Network("fast", 0.0, 1e12)
SLOW = Network("slow", 0.001, 1000.0)
STEP = Step(
    seconds=10.0, backward=9.0, ready=[4.0, 8.0], sizes=[1000, 2000], rows=5, seconds_per_byte=0.0, variation=0.0
)


def test_ring_sends_twice_the_bytes_in_messages_of_a_share():
    assert ring_seconds(4000, 2, SLOW) == pytest.approx(2 * (0.001 + 2.0))
    assert ring_seconds(4000, 4, SLOW) == pytest.approx(6 * (0.001 + 1.0))


def test_one_node_waits_for_nothing():
    assert predicted(STEP, 1, SLOW) == (10.0, 0.0, 0.0)


def test_buckets_that_arrive_before_the_backward_pass_ends_cost_nothing():
    assert predicted(STEP, 8, FAST).seconds == pytest.approx(10.0)
    assert predicted(STEP, 8, FAST).sent == 3000 * 2 * 7 / 8


def test_late_bucket_delays_the_step():
    # Two nodes: the first bucket travels from 4 to 5.002, the second from 8 to 10.002, and the backward pass ends at 9.
    found = predicted(STEP, 2, SLOW)
    assert found.exposed == pytest.approx(1.002)
    assert found.seconds == pytest.approx(11.002)


def test_bucket_waits_for_the_one_before_it():
    together = STEP._replace(ready=[8.0, 8.0])
    assert predicted(together, 2, SLOW).exposed == pytest.approx(8 + 1.002 + 2.002 - 9)


def test_bytes_cost_the_processors():
    busy = STEP._replace(seconds_per_byte=0.001)
    assert predicted(busy, 2, FAST).seconds == pytest.approx(13.0)  # 3,000 bytes are sent


def test_slowest_node_sets_the_time():
    varied = STEP._replace(variation=0.1)
    assert predicted(varied, 1024, FAST).seconds == pytest.approx(10 * (1 + 0.1 * 3.7233), rel=1e-4)


def test_script_prints_the_table_of_a_file(tmp_path, capsys, monkeypatch):
    place = tmp_path / "times.json"
    place.write_text(json.dumps(STEP._asdict()))
    monkeypatch.setattr("sys.argv", ["nodes", "--times", str(place), "--keep", str(tmp_path / "kept.json")])
    nodes.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("A step of 5 rows takes 10000 ms")
    assert [line.split(" | ")[0] for line in lines if line.startswith("| 1")] == ["| 1", "| 16", "| 128", "| 1,024"]
    assert json.loads((tmp_path / "kept.json").read_text()) == STEP._asdict()
