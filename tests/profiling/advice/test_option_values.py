"""Values that an advice proposes."""

from support.profiles import turns
from tessera.profiling.advice.option_values import first_line, schedule_options, tile_options


def test_a_profile_of_records_alone_proposes_nothing():
    profile = turns([1e5] * 4)
    assert first_line(profile) == ()
    assert tile_options(profile, 2) == ()
    assert list(schedule_options(profile, ["stages"])) == []
