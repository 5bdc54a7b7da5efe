"""The name that was probably meant."""

from tessera_magics.suggestions import suggestion


def test_the_nearest_name_is_suggested():
    assert suggestion("timelin", ["tiles", "timeline"]) == "; did you mean timeline?"
    assert suggestion("zzz", ["tiles", "timeline"]) == ""
