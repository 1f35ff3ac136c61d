"""profiling_options as JSON text, as a mapping and as an object."""

import copy
import json
import pickle
import random

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ProfilingConfig, ProfilingOptions
from ascend_session.config.reference import find, members_of
from tests.config.written import profiling_fault, profiling_options

MEMBERS = {
    name: profiling_fault(name, 5.5)[1][name] for name in members_of(find("profiling_options"))
}

DEFAULT = (
    '{"output":"./","training_trace":"on","task_time":"on","hccl":"on","aicpu":"on",'
    '"aic_metrics":"PipeUtilization","msproftx":"off"}'
)
VENDORS = (
    '{"output": "out", "task_time": "on", "aic_metrics": "PipeUtilization", '
    '"fp_point": "", "bp_point": ""}'
)


def refusal(value, function=profiling_options):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        DEFAULT,
        VENDORS,
        '{"output":"/home/test/output","task_trace":"on"}',
        ' {"output" : "a"}\n',
        '{"fp_point":"ä"}',
        '{"output":"./","dvpp_freq":50}',
        "{}",
        "",
    ],
)
def test_legal_text_is_returned_to_the_letter(text):
    assert profiling_options(text) == text


def test_empty_text_gives_no_members_because_the_adapter_takes_its_default():
    config = AscendConfig(profiling_config=ProfilingConfig(True, ""))
    assert config.parameter_map() == {"profiling_mode": True, "profiling_options": ""}


def test_a_mapping_becomes_compact_json_in_its_order():
    given = {"task_time": "l1", "output": "./", "fp_point": "ä"}
    assert profiling_options(given) == '{"task_time":"l1","output":"./","fp_point":"ä"}'


def test_the_members_of_a_text_can_be_read():
    assert ProfilingOptions.parse(VENDORS).members == json.loads(VENDORS)


def test_members_that_no_manual_describes_are_taken_with_a_warning():
    text = '{"output":"./","task_tsfw":"on"}'
    assert profiling_options(text) == text
    with pytest.warns(AscendConfigWarning, match="'task_tsfw' is not in the manual"):
        AscendConfig(profiling_config=ProfilingConfig(True, text))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("x", "it is not JSON (Expecting value at character 1)"),
        ('{"output":"./",task_trace":"on"}', "it is not JSON (Expecting property name"),
        ('{"output":"./"} x', "it is not JSON (Extra data at character 17)"),
        ("{'output':'./'}", "it is not JSON"),
        ('{"output":"a\nb"}', "it is not JSON"),
        ("[" * 2000, "it is not JSON"),
        ('"output"', "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ('[{"output":"./"}]', "it is not a JSON object"),
        ("null", "it is not a JSON object"),
        ('{"output":"a","output":"b"}', "the member 'output' is given twice"),
        ('{"dvpp_freq":"50"}', "dvpp_freq is '50' and must be a whole number without quotes"),
        ('{"fp_point":"\\u00e4"}', "it has a backslash, and GE leaves escapes in JSON"),
        ({"fp_point": 'a"b'}, "it has a backslash"),
        ('{"task_time":true}', "task_time is True and must be text in quotes"),
        ('{"output":null}', "output is None and must be text in quotes"),
        ('{"task_tsfw":{"a":"b"}}', "task_tsfw is"),
        ('{"op_trace":"on"}', "there is no member 'op_trace'"),
        ('{"training_trace":"off"}', "leave it out to switch it off"),
        ('{"traing_trace":"on"}', "did you mean 'training_trace'?"),
        ({"task_time": True}, "YAML reads a bare on as True"),
        ({1: "on"}, "1 is not a member name"),
        ({"fp_point": "\ud800"}, "it has half a surrogate pair in it"),
        ([("output", "./")], "a value of type list is not among the accepted forms"),
        (b"{}", "it is bytes"),
    ],
)
def test_what_ge_would_refuse_is_refused_with_a_right_example(value, said):
    message = refusal(value)
    assert said in message
    assert "write for example" in message


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("training_trace", '{"output":"./","training_trace":"on"}'),
        ("task_trace", '{"output":"./","training_trace":"on","task_trace":"on"}'),
        ("training_trace:task_trace", '{"output":"./","training_trace":"on","task_trace":"on"}'),
        ("traing_trace:task_trace", '{"output":"./","training_trace":"on","task_trace":"on"}'),
        ("op_trace", '{"output":"./","task_time":"on"}'),
    ],
)
def test_the_colon_list_of_seed_002_is_answered_with_the_json_to_write(text, example):
    message = refusal(text)
    assert "it is the colon list of earlier releases and JSON is needed today" in message
    assert f"write for example '{example}'" in message
    assert profiling_options(example) == example


def test_op_trace_is_said_to_have_no_successor():
    assert "which has no op_trace" in refusal("op_trace")


def test_a_wrong_member_gets_an_example_of_itself_in_the_form_that_was_used():
    assert refusal('{"dvpp_freq":500}').endswith("""write for example '{"dvpp_freq":100}'.""")
    assert refusal({"dvpp_freq": "500"}).endswith("write for example {'dvpp_freq': 100}.")


def test_2047_bytes_fit_and_one_more_does_not():
    frame = len('{"fp_point":""}')
    fits = {"fp_point": "a" * (2047 - frame)}
    text = profiling_options(fits)
    assert len(text) == 2047
    assert profiling_options(text) == text
    assert "has 2048 bytes and at most 2047 are read" in refusal({"fp_point": "a" * (2048 - frame)})
    assert "has 2048 bytes" in refusal(text + " ")


def test_the_length_counts_bytes_and_not_characters():
    assert "has 2415 bytes" in refusal({"fp_point": "ä" * 1200})


# ProfilingOptions -----------------------------------------------------------------------------


def test_an_object_renders_only_what_was_given_and_frequencies_as_numbers():
    options = ProfilingOptions(output="./", task_time="l1", dvpp_freq=50, fp_point="")
    assert json.loads(options.render()) == {
        "output": "./",
        "task_time": "l1",
        "dvpp_freq": 50,
        "fp_point": "",
    }
    assert profiling_options(options) == options.render()


def test_an_object_shows_its_members_and_none_for_the_rest():
    options = ProfilingOptions(dvpp_freq="50")
    assert options.dvpp_freq == 50
    assert options.output is None
    assert options.members == {"dvpp_freq": 50}
    with pytest.raises(AttributeError, match="no member 'dvp_freq'"):
        _ = options.dvp_freq


def test_an_object_is_frozen_comparable_and_can_be_copied():
    options = ProfilingOptions(output="./", hccl="on")
    with pytest.raises(AttributeError, match="frozen"):
        options.hccl = "off"
    options.members["hccl"] = "off"
    assert options.hccl == "on"
    for twin in (copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert twin == options
        assert hash(twin) == hash(options)
    assert options != ProfilingOptions(output="./")
    assert repr(options) == "ProfilingOptions(output='./', hccl='on')"


def test_an_object_takes_every_known_member_by_name_and_only_by_name():
    options = ProfilingOptions(**MEMBERS)
    assert list(options.members) == list(MEMBERS)
    with pytest.raises(TypeError):
        ProfilingOptions("./")
    with pytest.raises(TypeError):
        ProfilingOptions(outputs="./")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"training_trace": "off"}, "training_trace is 'off' and must be 'on'"),
        ({"hccl": True}, "hccl is True and must be text"),
        ({"hccl": 1}, "hccl is 1 and must be text"),
        ({"dvpp_freq": 101}, "dvpp_freq is 101 and must be 1 to 100 (Hz)"),
        ({"dvpp_freq": True}, "dvpp_freq is True"),
        ({"dvpp_freq": 5.0}, "dvpp_freq is 5.0"),
        ({"storage_limit": "200"}, "with the unit"),
        ({"others": {"traing_trace": "on"}}, "did you mean 'training_trace'?"),
        ({"others": {"hccl": "on"}, "hccl": "off"}, "the member 'hccl' is given twice"),
    ],
)
def test_an_object_with_a_wrong_member_is_refused(members, said):
    assert said in refusal(members, lambda given: ProfilingOptions(**given))


def test_text_that_is_parsed_renders_the_same_members():
    for text in (DEFAULT, VENDORS, '{"task_tsfw":"on","output":"./"}'):
        assert json.loads(ProfilingOptions.parse(text).render()) == json.loads(text)
    assert ProfilingOptions.parse('{"task_tsfw":"on"}').members == {"task_tsfw": "on"}


def test_empty_text_is_no_object():
    assert "it is empty" in refusal("", ProfilingOptions.parse)


def test_objects_round_trip():
    rng = random.Random(10)
    for _ in range(300):
        names = rng.sample(sorted(MEMBERS), rng.randrange(len(MEMBERS)))
        options = ProfilingOptions(**{name: MEMBERS[name] for name in names})
        assert ProfilingOptions.parse(profiling_options(options)) == options
        assert profiling_options(options.members) == options.render()


def test_the_schema_offers_each_member_that_ge_knows():
    schema = find("profiling_options").type.schema()["anyOf"][1]
    assert [name for name in MEMBERS if name not in schema["properties"]] == []
    assert schema["properties"]["dvpp_freq"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert schema["properties"]["training_trace"] == {"enum": ["on"]}
    assert schema["additionalProperties"] is False
