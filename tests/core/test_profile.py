"""The option that asks for records, and the layout of a record."""

from support import programs
from tessera.core import profile
from tessera.core.targets import Target
from tessera.lowering.artifact_cache.key import artifact_key


def test_the_option_is_part_of_the_key():
    program = programs.saxpy()
    recording = profile.with_profile(program)
    assert profile.wants_profile(recording)
    assert not profile.wants_profile(program)
    assert not program.options
    target = Target("cuda", "sm_90a")
    keys = {artifact_key(p, target) for p in (program, recording, profile.with_profile(program, 8))}
    assert len(keys) == 3
    assert [profile.wants_profile(p) for p in (program, recording, profile.with_profile(program, 8))] == [0, 1, 8]


def test_no_tuning_parameter_can_have_its_name():
    assert not profile.OPTION.isidentifier()


def test_words_do_not_overlap():
    phases = range(profile.FIRST_PHASE, profile.FIRST_PHASE + len(profile.PHASES))
    words = [profile.START, profile.END, profile.WORKER, profile.PLACE, *phases, profile.CYCLES]
    assert sorted(words) == list(range(profile.WORDS))
    assert profile.RECORD_BYTES == profile.WORDS * profile.WORD
