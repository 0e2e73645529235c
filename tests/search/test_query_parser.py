"""Author and time read from a question, and questions from which nothing is read."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern
from roomlore.search import query_parser as questions
from roomlore.search.query_parser import AppliedFilters, Filters, ParsedQuery, parse_query
from roomlore.search.time_phrases import parse_time_range
from roomlore.text.recognisers import is_question

#: A Wednesday.
NOW = datetime(2024, 3, 13, 15, 30, tzinfo=UTC)
MINE = "mine"
BOTS, HUMANS = "bots", "humans"
KINDS = {BOTS: "agent", HUMANS: "human"}


@dataclass(frozen=True, slots=True)
class Case:
    """A question and what is read from it."""

    question: str
    who: tuple[str, ...]
    topic: str
    when: str | None = None
    is_loose: bool = False


#: By the form in which it is asked.
CASES = [
    # what did … say
    Case("what did Ana say about the ferry?", ("Ana",), "the ferry"),
    Case("What did ana say about the ferry", ("ana",), "the ferry"),
    Case("what does Ana say about the ferry?", ("Ana",), "the ferry"),
    Case("what else did Ana say about the ferry?", ("Ana",), "the ferry"),
    Case("when did Ana say that the ferry leaves?", ("Ana",), "the ferry leaves"),
    Case("where did Ana mention the harbour?", ("Ana",), "the harbour"),
    Case("Did Ana ever mention the harbour?", ("Ana",), "the harbour"),
    Case("how often did Ana mention the ferry?", ("Ana",), "the ferry"),
    Case("what time did Ana say the ferry leaves?", ("Ana",), "time the ferry leaves"),
    Case("Which restaurants did Ana mention?", ("Ana",), "restaurants"),
    Case("what questions did Ana ask about berths?", ("Ana",), "berths"),
    Case("what did Ana suggest for dinner?", ("Ana",), "for dinner"),
    Case("what did Ana ask Bo to bring?", ("Ana",), "Bo to bring"),
    Case("what did Ana tell Bo about the key?", ("Ana",), "Bo about the key"),
    Case("what did Ana write about her trip", ("Ana",), "her trip"),
    Case("what did the project manager say about the remote?", ("the project manager",), "the remote"),
    Case("what did Ana Maria Silva say about it all", ("Ana Maria Silva",), "it all"),
    Case("what did @ana say about the key", ("ana",), "the key"),
    Case("what did Ana and Bo say about the ferry", ("Ana", "Bo"), "the ferry"),
    Case("what did Ana, Bo, and Cy say about the ferry", ("Ana", "Bo", "Cy"), "the ferry"),
    Case("did Ana or Bo say anything about the ferry?", ("Ana", "Bo"), "the ferry"),
    Case("has Ana mentioned the harbour?", ("Ana",), "the harbour"),
    Case("what has Ana said about the ferry?", ("Ana",), "the ferry"),
    Case("what was Ana saying about the party?", ("Ana",), "the party"),
    Case("hey, can you tell me what Ana said about the harbour?", ("Ana",), "the harbour"),
    Case("do you remember what Ana said about the harbour?", ("Ana",), "the harbour"),
    Case("what Ana said about the ferry", ("Ana",), "the ferry"),
    Case("everything Ana has said about the ferry", ("Ana",), "the ferry"),
    Case("find the things that Ana mentioned about fuel", ("Ana",), "fuel"),
    Case("why did Ana say that?", ("Ana",), "why did Ana say that"),
    Case("what did Ana say about it?", ("Ana",), "what did Ana say about it"),
    Case("what did Ana say about yesterday's meeting?", ("Ana",), "yesterday's meeting"),
    Case("what did Ana say about yesterday\u2019s meeting?", ("Ana",), "yesterday's meeting"),
    # by …, from …, …'s messages
    Case("what was said by Ana about the ferry?", ("Ana",), "the ferry"),
    Case("anything said by Ana about the ferry", ("Ana",), "the ferry"),
    Case("messages from Ana about the ferry", ("Ana",), "the ferry"),
    Case("show me all messages by Ana", ("Ana",), ""),
    Case("Ana's messages about the ferry", ("Ana",), "the ferry"),
    Case("what was Ana's answer to Bo's question?", ("Ana",), "Bo's question"),
    Case("according to Ana, when does the ferry leave?", ("Ana",), "when does the ferry leave"),
    # bots, people, oneself
    Case("what did bots say about deploys?", (BOTS,), "deploys"),
    Case("what do the agents say about deploys?", (BOTS,), "deploys"),
    Case("which bot said that the build is red?", (BOTS,), "the build is red"),
    Case("did any bot mention the build?", (BOTS,), "the build"),
    Case("bot messages about deploys", (BOTS,), "deploys"),
    Case("the bot's answers about deploys", (BOTS,), "deploys"),
    Case("messages from bots", (BOTS,), ""),
    Case("what did humans say about deploys?", (HUMANS,), "deploys"),
    Case("what did I say about the ferry?", (MINE,), "the ferry"),
    Case("what have I said about the ferry?", (MINE,), "the ferry"),
    Case("did I ask about the ferry?", (MINE,), "the ferry"),
    Case("find similar questions I asked about backups", (MINE,), "backups"),
    Case("questions I asked", (MINE,), ""),
    Case("my questions about the ferry", (MINE,), "the ferry"),
    Case("what did Ana and I say about the ferry", (MINE, "Ana"), "the ferry"),
    # when it was said
    Case("what did Ana say last week?", ("Ana",), "", "last week"),
    Case("what did Ana say last week about the ferry?", ("Ana",), "the ferry", "last week"),
    Case("last week, what did Ana say about the ferry?", ("Ana",), "the ferry", "last week"),
    Case("what did Ana say on 5 March about the ferry?", ("Ana",), "the ferry", "on 5 March"),
    Case("what did Ana say on 2024-03-05?", ("Ana",), "", "on 2024-03-05"),
    Case("what did Ana say in March 2023?", ("Ana",), "", "in March 2023"),
    Case("what did Ana say before Monday about it all?", ("Ana",), "it all", "before Monday"),
    Case("what did Ana tell Bo yesterday about the key?", ("Ana",), "Bo about the key", "yesterday"),
    Case("what did the bots say this morning?", (BOTS,), "", "this morning"),
    Case("messages from Ana since Monday", ("Ana",), "", "since Monday"),
    Case("messages from last week about the ferry", (), "the ferry", "last week"),
    Case("questions I asked last month", (MINE,), "", "last month"),
    Case("what was said yesterday about the ferry?", (), "the ferry", "yesterday"),
    Case("yesterday, what was said about the ferry?", (), "the ferry", "yesterday"),
    Case("what did we discuss last week?", (), "", "last week"),
    Case("what was discussed between 5 March and 10 March?", (), "", "between 5 March and 10 March"),
    Case("what did she say two days ago?", (), "", "two days ago"),
    # when it was said, or what is spoken of happened: nothing earlier
    Case("what did Ana say about the ferry last week?", ("Ana",), "the ferry", "last week", is_loose=True),
    Case("what was said about the ferry yesterday?", (), "the ferry", "yesterday", is_loose=True),
    Case("everything Ana said about fuel since March", ("Ana",), "fuel", "since March", is_loose=True),
    Case(
        *("did anyone say anything about fuel in the last 3 days?", (), "fuel", "in the last 3 days"),
        is_loose=True,
    ),
    Case("what did people say about the ferry two days ago?", (), "the ferry", "two days ago", is_loose=True),
    # only the time of what is spoken of
    Case("what did Ana say about the ferry in March?", ("Ana",), "the ferry in March"),
    Case("what did Ana say about the ferry on 5 March?", ("Ana",), "the ferry on 5 March"),
    Case("what did Ana say about her plans today?", ("Ana",), "her plans today"),
    Case("what did Ana say about her plans this week?", ("Ana",), "her plans this week"),
    Case("what did Ana say about the report from last week?", ("Ana",), "the report from last week"),
    Case("what did Ana say about what happened last week?", ("Ana",), "what happened last week"),
    Case("what did Ana say happened last week?", ("Ana",), "happened last week"),
    Case("what did Ana say she did yesterday?", ("Ana",), "she did yesterday"),
    Case("what did Ana say about next week?", ("Ana",), "next week"),
]

#: Of these nothing is read: somebody is named, something happened, and who said it or when is not asked.
NOTHING = [
    "what does Ana like?",
    "what did Ana's dog do?",
    "what did Ana do last week?",
    "what does Ana think about the ferry?",
    "what book did Ana read last month?",
    "when did the fire happen in March?",
    "what will we do next week?",
    "what are we doing this week?",
    "what happened yesterday?",
    "what happened after Ana said she would leave?",
    "how did Bo react to what Ana said?",
    "what was Ana told about the party?",
    "was Ana asked about the party?",
    "what would Ana say about it?",
    "what will Ana say tomorrow?",
    "did Ana post the letter?",
    "did Ana write the report last week?",
    "what did Ana write in her journal?",
    "which letters did Ana write?",
    "what Ana suggested was rejected, why?",
    "my question is how to reset it",
    "my message was deleted, why?",
    "what was the answer to my question?",
    "who wrote the report?",
    "who said the ferry is late?",
    "who said that yesterday's meeting was bad?",
    "what did we say about the ferry?",
    "what did they say about Ana?",
    "what did Ana and everybody say?",
    "what did Ana and the bots say?",
    "tell me about Ana",
    "Ana",
    "when is the release?",
    "what is the wifi password in the office?",
    "berth 3 dredging",
    "is the bot down?",
    "how do I ask the bot?",
    "what do I say to Bo?",
    "how does the bot answer?",
    "who is on call this week?",
    "",
    "?",
]


def who(asked: ParsedQuery) -> tuple[str, ...]:
    kinds = [word for word, kind in KINDS.items() if kind in asked.kinds]
    return (*([MINE] if asked.is_own else []), *kinds, *asked.names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.question)
def test_question_gives_author_and_time(case: Case):
    asked = parse_query(case.question)

    assert (who(asked), asked.time_phrase, asked.is_time_loose) == (case.who, case.when, case.is_loose)
    assert asked.topic == case.topic
    assert asked.text == case.question


@pytest.mark.parametrize("question", NOTHING)
def test_a_question_that_asks_neither_says_nothing_of_itself(question: str):
    assert parse_query(question) == ParsedQuery(text=question)


@pytest.mark.parametrize("question", ["what has Ana been told about it?", "what did Ana not say"])
def test_phrase_that_only_looks_like_a_name_is_no_author(question: str):
    assert "Ana" not in parse_query(question).names


def test_a_question_for_questions_says_so():
    for question in ("questions I asked", "my question about it", "what questions did Ana ask?"):
        assert parse_query(question).wants_questions
    for question in ("what did Ana ask?", "what was Ana's answer to Bo's question?", "messages from Ana"):
        assert not parse_query(question).wants_questions


def test_search_text_depends_on_the_filters_that_apply():
    asked = parse_query("what did Ana say last week about the ferry?")

    assert asked.search_text(author=True, time=True) == "the ferry"
    assert asked.search_text(author=False, time=True) == "what did Ana say about the ferry"
    assert asked.search_text(author=True, time=False) == asked.text
    assert asked.search_text(author=False, time=False) == asked.text
    assert asked.search_texts() == {"the ferry", "what did Ana say about the ferry", asked.text}


def test_a_loose_time_has_no_end_and_one_to_come_is_none():
    def told(question: str):
        return parse_query(question).time_range(NOW)

    assert told("what did Ana say last week?") == parse_time_range("last week", NOW)
    assert told("what did Ana say about the ferry last week?") == parse_time_range("since last week", NOW)
    assert told("what did Ana say since 2030?") is None
    assert told("what did Ana say on 30 February?") is None
    assert told("what does Ana like?") is None


@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from(" ".join(case.question for case in CASES).split())).map(" ".join)
)
def test_parsing_never_fails_and_is_deterministic(question: str):
    asked = parse_query(question)

    assert asked == parse_query(question)
    assert asked.text == question
    assert asked.search_text(author=False, time=False) == question
    found = asked.time_range(NOW)
    assert found is None or found.since is None or found.since <= NOW


@pytest.mark.parametrize("filler", ["a ", ", ", "last week ", "Ana and ", "since ", "what did "])
def test_a_long_text_is_not_gone_through(filler: str):
    question = "what did Ana say about " + filler * 20_000

    assert parse_query(question) == ParsedQuery(text=question)


# When


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ("today", "2024-03-13", "2024-03-14"),
        ("yesterday", "2024-03-12", "2024-03-13"),
        ("the day before yesterday", "2024-03-11", "2024-03-12"),
        ("this morning", "2024-03-13", "2024-03-13T12:00"),
        ("yesterday evening", "2024-03-12T17:00", "2024-03-13"),
        ("last night", "2024-03-12T18:00", "2024-03-13T06:00"),
        ("this week", "2024-03-11", "2024-03-18"),
        ("Last  Week", "2024-03-04", "2024-03-11"),
        ("last weekend", "2024-03-09", "2024-03-11"),
        ("last month", "2024-02-01", "2024-03-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("the last 3 days", "2024-03-10", None),
        ("in the past two weeks", "2024-02-28", None),
        ("the last week", "2024-03-06", None),
        ("the last 2 months", "2024-01-13", None),
        ("the last 12 hours", "2024-03-13T03:30", None),
        ("3d", "2024-03-10", None),
        ("two weeks ago", "2024-02-26", "2024-03-04"),
        ("a month ago", "2024-02-01", "2024-03-01"),
        ("3 days ago", "2024-03-10", "2024-03-11"),
        ("2 hours ago", "2024-03-13T12:30", "2024-03-13T14:30"),
        ("last Monday", "2024-03-11", "2024-03-12"),
        ("last Wednesday", "2024-03-06", "2024-03-07"),
        ("on Wednesday", "2024-03-13", "2024-03-14"),
        ("this Monday", "2024-03-11", "2024-03-12"),
        ("in March", "2024-03-01", "2024-04-01"),
        ("in December", "2023-12-01", "2024-01-01"),
        ("last March", "2023-03-01", "2023-04-01"),
        ("in March 2022", "2022-03-01", "2022-04-01"),
        ("in 2023", "2023-01-01", "2024-01-01"),
        ("on 5 March", "2024-03-05", "2024-03-06"),
        ("on the 5th of April", "2023-04-05", "2023-04-06"),
        ("March 5th, 2022", "2022-03-05", "2022-03-06"),
        ("29 Feb 2024", "2024-02-29", "2024-03-01"),
        ("2024-03-05", "2024-03-05", "2024-03-06"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2024-03-05T14:30", "2024-03-05T14:30", "2024-03-05T14:30"),
        ("since Monday", "2024-03-11", None),
        ("from 5 March on", "2024-03-05", None),
        ("after last week", "2024-03-11", None),
        ("until yesterday", None, "2024-03-13"),
        ("before 5 March", None, "2024-03-05"),
        ("between Monday and yesterday", "2024-03-11", "2024-03-13"),
        ("from January to February", "2024-01-01", "2024-03-01"),
    ],
)
def test_a_phrase_means_a_stretch_of_time(words: str, since: str | None, until: str | None):
    found = parse_time_range(words, NOW)

    assert found is not None
    assert (found.since, found.until) == (since and day(since), until and day(until))


@pytest.mark.parametrize(
    "words",
    [
        *("", "soon", "tomorrow", "next week", "30 February", "2024-13-01", "this Friday", "since the party"),
        *("between yesterday and Monday", "5000 days ago", "0", "-3d", "3m", "since", "before"),
    ],
)
def test_other_phrases_are_no_time(words: str):
    assert parse_time_range(words, NOW) is None


@pytest.mark.parametrize(
    ("words", "since"),
    [("9999-12-31", "9999-12-31"), ("9999-12", "9999-12-01"), ("on 9999-12-31", "9999-12-31")],
)
def test_the_last_of_all_days_and_months_count_whole(words: str, since: str):
    found = parse_time_range(words, NOW)
    assert found is not None
    assert (found.since, found.until) == (day(since), datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize("words", ["today", "this week", "this month", "this year", "Friday", "31 December"])
def test_on_the_last_of_all_days_there_is_still_a_present(words: str):
    last = datetime(9999, 12, 31, 12, tzinfo=UTC)
    found = parse_time_range(words, last)
    assert found is not None
    assert found.since <= last < found.until


def test_days_follow_the_clock_of_the_asker():
    east = NOW.astimezone(timezone(timedelta(hours=14)))
    found = parse_time_range("today", east)
    assert found is not None
    assert found.since == datetime(2024, 3, 13, 10, tzinfo=UTC)

    # The night in which the clocks of Berlin go forward has 23 hours.
    berlin = datetime(2024, 3, 31, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    short = parse_time_range("today", berlin)
    assert short is not None
    assert short.since is not None
    assert short.until is not None
    assert short.until.astimezone(UTC) - short.since.astimezone(UTC) == timedelta(hours=23)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(
        ["today", "last week", "the last 999 years", "999 months ago", "in March", "29 February", "this year"]
    ),
)
def test_no_moment_is_too_early_or_too_late_to_count_from(now: datetime, words: str):
    found = parse_time_range(words, now)

    assert found is None or found.since is None or found.until is None or found.since < found.until


# Filters as people write them


def test_a_day_that_ends_a_period_counts_whole_and_a_time_exactly():
    assert Filters(since="yesterday", until="yesterday").time_range(NOW) == parse_time_range("yesterday", NOW)
    assert Filters(since="9999-12-31", until="9999-12-31").time_range(NOW) == parse_time_range(
        "9999-12-31", NOW
    )
    noon = Filters(until="2024-03-05T12:00").time_range(NOW)
    assert noon.until == day("2024-03-05T12:00")
    assert Filters(since=NOW).time_range(NOW).since == NOW
    nothing = Filters().time_range(NOW)
    assert (nothing.since, nothing.until) == (None, None)


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        (Filters(since="soon"), "since: 'soon' is no time"),
        (Filters(until="until"), "until: 'until' is no time"),
        (Filters(since=NOW.replace(tzinfo=None)), "since: must say its time zone"),
        (Filters(since="today", until="yesterday"), "until: must be after since"),
    ],
)
def test_a_period_that_is_none_is_refused_with_the_reason(filters: Filters, error: str):
    with pytest.raises(BadInput, match=error):
        filters.time_range(NOW)


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(BadInput, match="kind: 'robot' is none of human, agent, system"):
        Filters(kinds=["robot"]).check()


def test_summary_is_one_line_that_no_name_can_forge():
    told = AppliedFilters(
        by=["Ana", "Bo]\nread as: by Cy"], kinds=["agent"], since=day("2024-03-04"), until=NOW, words="ferry"
    ).summary()

    assert told.startswith("by Ana or Bo")
    assert told.endswith("or agents, since 2024-03-04, before 2024-03-13 15:30")
    assert "\n" not in told
    assert "]" not in told


def test_note_about_unknown_names_is_one_line_that_no_name_can_forge():
    plain = AppliedFilters(by=[], kinds=[], since=None, until=None, words="what did Zork say?")
    assert (plain.summary(), plain.unknown_names_note()) == ("", "")
    remark = replace(plain, unknown=["Zork", "Bo]\n[Ana"]).unknown_names_note()
    assert remark.startswith("Nobody called \u201cZork\u201d or \u201cBo")
    assert "\n" not in remark
    assert "]" not in remark


@pytest.mark.parametrize(
    "body", ["where is the key?", "Where is the key", "does anyone know", "is it late ?"]
)
def test_a_message_with_a_mark_or_the_first_word_of_a_question_asks(body: str):
    assert is_question(body)


@pytest.mark.parametrize("body", ["the key is here", "whatever", "is late", "", "howling wind"])
def test_other_messages_ask_nothing(body: str):
    assert not is_question(body)


WORDS = (
    *(
        "what",
        "which",
        "did",
        "does",
        "has",
        "was",
        "who",
        "Ana",
        "bots",
        "my",
        "else",
        "all",
        "the",
        "ferry",
    ),
    *("say", "said", "saying", "wrote", "discussed", "messages", "question", "by", "from", "according", "to"),
    *("about", "yesterday", "last week", "since Monday", "ever", "me", "is", "that", "sent", "MENTIONED"),
)


@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_no_form_is_missed_for_the_words_that_it_has(words) -> None:
    """The quick test before the forms hides no match."""
    question = " ".join(words)
    quick = parse_query(question)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "_NEEDED", lazy_pattern(""))
        whole = parse_query(question)

    assert quick == whole
