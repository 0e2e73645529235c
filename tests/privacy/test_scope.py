"""Whose words a wish reaches: one's own, and of others' only what tells a secret that was one's own to tell."""

from datetime import UTC, datetime

import pytest

from roomlore.db.privacy_requests import RoomMessage, RoomParticipant
from roomlore.privacy.mentions import NameIndex
from roomlore.privacy.recogniser import recognise
from roomlore.privacy.records import RequestScope
from roomlore.privacy.scope import MAX_VALUES, RECENT, covers, resolve_scope

NAMES = {"Ana": "human", "Bo": "human", "Cy": "human", "Pip": "agent", "Linda": "human"}
PEOPLE = NameIndex.build(
    RoomParticipant(room_id=0, id=name, name=name, kind=kind) for name, kind in NAMES.items()
)
NOON = datetime(2024, 5, 4, 12, tzinfo=UTC)


def told(*lines: str | tuple[str, int]) -> list[RoomMessage]:
    """What was said: `Ana: hello`, and where it answers something, the number of that."""
    said: list[RoomMessage] = []
    for number, line in enumerate(lines, start=1):
        text, parent = line if isinstance(line, tuple) else (line, None)
        author, body = text.split(": ", 1)
        said.append(
            RoomMessage(
                id=number,
                room_id=0,
                author_id=author,
                author_name=author,
                author_kind=NAMES[author],
                body=body,
                sent_at=NOON,
                sequence=number,
                reply_to=parent,
            )
        )
    return said


def covered(*lines: str | tuple[str, int]) -> set[int]:
    """The numbers of what the wishes among these messages cover, without the wishes themselves."""
    said, reaches = told(*lines), list[RequestScope]()
    for voice in said:
        wish = recognise(voice.body, voice.author_id, PEOPLE)
        if wish is not None:
            reaches.append(resolve_scope(wish, voice, said, name_index=PEOPLE, earlier=list(reaches)))
    voices = {reach.message_id for reach in reaches}
    return {one.id for one in said for reach in reaches if covers(reach, one)} - voices


SQUATTED = [
    "Postgres",
    "Kubernetes",
    "project Falcon",
    "the alias Zephyr",
    "Windows 11",
    "python3",
    "k8s",
    "room 218",
    '"the deploy is done"',
    "phase 2",
]


@pytest.mark.parametrize("name", SQUATTED)
@pytest.mark.parametrize(
    "wish", ["please forget what I said about {}", "delete {} from memory", "please forget that"]
)
def test_whoever_names_something_first_hides_nobody_elses_words_about_it(name, wish):
    lines = [
        f"Ana: {name} is slow",
        f"Bo: {name} is fine here",
        f"Ana: {wish.format(name)}",
        f"Cy: what about {name}?",
        (f"Bo: {name} it is", 1),
    ]
    assert covered(*lines) <= {1}


@pytest.mark.parametrize("name", ["Kubernetes", "Falcon", "Zephyr 9"])
def test_nor_does_who_calls_it_confidential_where_others_speak_of_it(name):
    chatter = [f"Bo: {name} was down at {hour}" for hour in range(9)]
    lines = [f"Ana: this is confidential: {name} is what we use", *chatter, f"Ana: delete {name} from memory"]
    assert covered(*lines) <= {1}
    assert covered(lines[0], lines[1], lines[-1], f"Cy: {name} is up") <= {1}


@pytest.mark.parametrize(
    "value", ["7731-0042", "the value release-candidate-v2", "build-2024-alpha1", "x@example.org"]
)
def test_whoever_repeats_a_value_hides_no_words_of_whoever_said_it_first(value):
    lines = [
        f"Bo: {value} is due",
        f"Ana: {value}, sure",
        f"Ana: delete {value} from memory",
        f"Cy: is {value} done?",
    ]
    assert covered(*lines) <= {2}


def test_a_name_covers_all_that_its_wisher_said_of_it():
    lines = ["Ana: Postgres is slow", "Bo: Postgres is fine", "Ana: Postgres again", "Ana: tea"]
    assert covered(*lines, "Ana: please forget what I said about Postgres") == {1, 3}


@pytest.mark.parametrize(
    "value", ["415-555-0142", "4412-9981-03", "ana.moss@example.org", "tk_live_9Q4M-L7PT-2C8R"]
)
def test_a_value_that_nobody_says_by_chance_is_covered_wherever_it_is_repeated(value):
    lines = [f"Ana: it is {value}", f"Bo: {value}, noted", "Ana: hm", f"Ana: delete {value} from memory"]
    assert covered(*lines, f"Cy: was it {value}?") == {1, 2, 5}


def test_an_alias_that_was_told_in_confidence_is_covered_where_it_is_repeated():
    lines = [
        "Ana: sensitive: ask for the alias Nia",
        "Bo: noted, Nia",
        "Ana: delete the alias Nia from memory",
    ]
    assert covered(*lines) == {1, 2}


def test_a_year_at_the_end_of_a_code_gives_nothing_away():
    lines = ["Ana: it is AB-77-2024", "Bo: in 2024 we moved", "Ana: please forget that"]
    assert covered(*lines) == {1}


def test_a_leaked_key_is_covered_whoever_wants_it_forgotten_and_a_version_is_not():
    wish = "Cy: remove {} from memory"
    key, version = "zz9Q4M-L7PT-2C8R", "kubernetes-v1-beta2"
    assert covered(f"Bo: the token is {key}", wish.format(key)) == {1}
    assert covered(f"Bo: we run {version}", wish.format(version)) == set()


KEY = "zz9Q4M-L7PT-2C8R"


@pytest.mark.parametrize(
    "words",
    [
        "the token is {}",
        "password: {}",
        "API key={}",
        "our secret {}",
        'the credential was "{}"',
        "the staging token currently in use for the tests is {}",
        "the exact token in the path that broke is {}",
        "the token remains {} until noon",
    ],
)
def test_what_is_made_like_a_key_and_called_one_where_it_stands_anybody_may_have_forgotten(words):
    assert covered(f"Bo: {words.format(KEY)}", f"Cy: remove {KEY} from memory") == {1}


@pytest.mark.parametrize(
    "words",
    [
        "the key point: invoice {} is due",
        "{} is due, and who has the password?",
        "I lost my token on the way to {}",
        "the keys of the shed are with {}",
        "a keynote on {}",
        "the secret is out. It is {}",
    ],
)
@pytest.mark.parametrize("value", ["INV2024A0017", KEY])
def test_what_a_key_is_merely_spoken_of_beside_is_no_key(words, value):
    lines = [f"Bo: {words.format(value)}", f"Ana: I paid half of {value}", f"Cy: delete {value} from memory"]
    assert covered(*lines) == set()


@pytest.mark.parametrize(
    "words",
    [
        "{}, not for weekends though",
        "{}, the form is case sensitive",
        "{}; do not share a taxi",
        "is this confidential? {}",
        "this is not confidential: {}",
        "{} and we kept a spare in the tool room",
        "{} has nothing more specific",
    ],
)
def test_words_that_only_sound_like_confidence_let_nobody_hide_anothers(words):
    number = "415-555-0142"
    lines = [f"Ana: {words.format(f'the kiln phone is {number}')}", f"Bo: {number}, got it"]
    assert covered(*lines, f"Cy: please delete {number} from your memory") == set()


@pytest.mark.parametrize(
    "words",
    [
        "confidential: {}",
        "this is sensitive: {}",
        "{}. Treat it as very sensitive.",
        "{}, not for the record",
        "{}. Please never share this.",
        "{}, keep it inside our room",
        "{}, that stays in the core room only",
    ],
)
def test_a_value_that_was_told_in_confidence_may_be_forgotten_for_whom_it_is(words):
    number = "415-555-0142"
    lines = [f"Bo: {words.format(f'Cy is at {number}')}", f"Ana: {number}, got it"]
    assert covered(*lines, f"Cy: please delete {number} from your memory") == {1, 2}


NUMBER = "415-555-0142"
RECORD = f"Deletion request recorded: phone {NUMBER}"
SHARED = ["Ana: my dog is called Rex", f"Ana: the kiln phone is {NUMBER}", f"Bo: {NUMBER}, got it"]
TEA = [f"Bo: more tea in pot {n}" for n in range(RECENT)]


@pytest.mark.parametrize("who", ["Cy", "Pip"])
def test_a_record_of_a_wish_hides_nothing_of_who_wished_something_else_once(who):
    assert covered(*SHARED, "Ana: please forget that Rex barks", *TEA, f"{who}: {RECORD}") <= {1}


def test_nor_where_somebody_else_asked_for_what_is_recorded():
    lines = [*SHARED, "Ana: please forget what I said about Rex", f"Cy: delete {NUMBER} from memory"]
    assert covered(*lines, f"Pip: {RECORD}") == {1}


def test_an_agent_that_records_a_wish_records_it_for_who_had_it_just_before():
    wish = "Ana: please delete my callback details from memory"
    assert covered(*SHARED, wish, f"Pip: {RECORD}") == {2, 3}
    assert covered(*SHARED, wish, f"Cy: {RECORD}") == set()


# What a wish that points back means


def test_a_message_that_says_what_is_to_be_kept_means_itself_and_not_what_was_said_before():
    lines = ["Linda: hi", "Ana: the ferry leaves at noon", "Ana: I am allergic to peanuts. Don't tell Linda."]
    assert covered(*lines) == set()


@pytest.mark.parametrize("wish", ["Don't tell Linda.", "Please don't tell Linda!", "Ok. Don't tell Linda."])
def test_a_wish_that_says_nothing_else_means_what_was_said_before(wish):
    assert covered("Linda: hi", "Ana: I am allergic to peanuts", f"Ana: {wish}") == {2}


def test_a_message_that_answers_is_about_what_it_answers_even_if_it_says_more():
    lines = [
        "Ana: I am allergic to peanuts",
        "Linda: hi",
        ("Ana: Ah, sorry. Don't tell Linda about this.", 1),
    ]
    assert covered(*lines) == {1}


def test_so_many_values_are_looked_for_and_no_more():
    lines = [f"Ana: {', '.join(f'77{n:02}-{n:04}' for n in range(100))}", "Ana: please forget that"]
    said = told(*lines)
    wish = recognise(said[1].body, "Ana", PEOPLE)
    assert wish is not None
    reach = resolve_scope(wish, said[1], said, name_index=PEOPLE, earlier=[])
    assert len(reach.digests) == MAX_VALUES
