import io
import json
import math

import ijson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.importers.reading.json_stream import MAX_DEPTH, TOO_DEEP, walk

ROOT = {(): "list"}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def found(data: bytes, spine=ROOT):
    steps = list(walk(io.BytesIO(data), spine))
    return [step.value for step in steps if step.kind == "value"], [
        step.value[0] for step in steps if step.kind == "fault"
    ]


@pytest.mark.slow
@given(st.lists(values, max_size=5), st.booleans())
def test_what_is_walked_equals_what_was_written(items, escaped):
    assert found(json.dumps(items, ensure_ascii=escaped).encode()) == (items, [])


@pytest.mark.slow
@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_a_truncated_list_yields_whole_items_and_one_fault(items, data):
    text = json.dumps(items, ensure_ascii=False).encode("utf-8", "replace")
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    got, faults = found(cut)
    assert len(faults) == 1
    assert len(got) <= len(items)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_values_or_one_fault(data):
    _, faults = found(data)
    assert len(faults) <= 1
    assert set(faults) <= {"truncated JSON", "damaged JSON"}


@pytest.mark.parametrize("number", [b"9" * 20, b"9" * 10_000, b"1e999", b"1e" + b"9" * 50, b"NaN"])
def test_a_number_beyond_the_machine_ends_the_file_and_keeps_what_came_before(number):
    assert found(b"[1, 2.5, " + number + b", 3]") == ([1, 2.5], ["damaged JSON"])


def test_bytes_that_are_not_utf8_and_bare_controls_are_mended():
    assert found(b'["caf\xe9", "a\x00b", "line\x0bfeed"]') == (["caf�", "a b", "line feed"], [])


def test_a_character_split_between_reads_stays_whole():
    class OneByOne(io.BytesIO):
        def read(self, size=-1, /):
            return super().read(min(1, size))

    steps = list(walk(OneByOne('["é😀"]'.encode()), ROOT))
    assert [step.value for step in steps if step.kind == "value"] == ["é😀"]


def test_marks_at_the_start_choose_the_encoding():
    for encoding in ("utf-8-sig", "utf-16"):
        assert found('["é"]'.encode(encoding)) == (["é"], [])


def test_deep_nesting_is_one_marked_value_among_good_ones():
    deep = "[" * (MAX_DEPTH + 5) + "]" * (MAX_DEPTH + 5)
    got, faults = found(f"[1, {deep}, 2]".encode())
    assert got == [1, TOO_DEEP, 2]
    assert not faults


def test_only_the_spine_is_walked_into():
    data = json.dumps({"a": [1], "messages": [{"x": 1}, 2], "z": {"messages": [3]}}).encode()
    steps = list(walk(io.BytesIO(data), {(): "object", ("messages",): "list"}))
    assert [(step.kind, step.place, step.key, step.number, step.value) for step in steps] == [
        ("opened", (), "", 0, None),
        ("value", (), "a", 0, [1]),
        ("opened", ("messages",), "", 0, None),
        ("value", ("messages",), "", 1, {"x": 1}),
        ("value", ("messages",), "", 2, 2),
        ("value", (), "z", 0, {"messages": [3]}),
    ]


def test_floats_are_floats():
    got, _ = found(b"[1.25]")
    assert math.isclose(got[0], 1.25)
    assert type(got[0]) is float


SECRET = "xoxb-123456789012-abcdefghijkl"
BROKEN = [f"[{SECRET}]", f'[{{"a" "{SECRET}"}}]', f'["\\q{SECRET}"]', f'["é{SECRET}', f'["a"] {SECRET}']


@pytest.mark.parametrize("text", BROKEN)
def test_a_fault_says_what_is_wrong_and_never_what_was_found(text):
    [*_, last] = walk(io.BytesIO(text.encode()), ROOT)
    reason, detail = last.value
    assert (last.kind, reason) == ("fault", "truncated JSON" if "é" in text else "damaged JSON")
    assert "error: " in detail
    assert SECRET[:8] not in detail


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        (f"Unexpected symbol '{SECRET}' at 1", ""),
        (f"b'parse error: no\\n {SECRET}'", "parse error: no"),
        (SECRET, ""),
    ],
)
def test_a_parser_that_quotes_the_file_is_not_passed_on(monkeypatch, said, detail):
    def fail(*_, **__):
        raise ijson.JSONError(said)

    monkeypatch.setattr(ijson, "basic_parse", fail)
    [only] = walk(io.BytesIO(b"[]"), ROOT)
    assert only.value == ("damaged JSON", detail)
