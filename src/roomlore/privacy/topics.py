"""Recognises the topics of a message by keywords, to apply restrictions."""

import re
from functools import lru_cache

from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern
from roomlore.privacy.records import Topic

_STEMS: dict[Topic, str] = {
    "schedule": (
        r"schedul\w*|logistic\w*|appointments?|rides?|ride-\w+|pick-?up|drop-?off|parking|arriv\w+|check-?in|calendar"
        r"|timing|times?|transport\w*|directions|location|meetings?|slots?|availability|visit times?|invite\w*"
    ),
    "health": (
        r"clinical\w*|medical\w*|medic(?:ine|ation)s?|meds|diagnos\w+|symptoms?|results?|patholog\w+|findings?|disease"
        r"|cancer\w*|tumou?rs?|pregnan\w+|dos(?:e|es|age)|mg|mcg|milligrams?|micrograms?|tablets?|pills?|prescri\w+"
        r"|bleeding|pain|allerg\w+|fever|nausea|infection\w*|doctor'?s notes?|prognosis|insulin|abnormal|condition"
        r"|positive|negative|mmol\w*|miu\w*|iu/ml|creatinine|glucose|potassium|hemoglobin|levels?|swelling|rash"
        r"|dizz\w+|seizures?|breath\w*|swallow\w*|voice changes?|warning signs?|interpretation\w*|therapist|psychiatr\w+"
    ),
    "contact": (
        r"phones?|phone numbers?|callbacks?|call-?back\w*|mobiles?|cell|e-?mails?|address\w*|voicemails?|contact\w*|aliases"
        r"|alias|numbers?|\+?\d{3}[ .-]\d{3}[ .-]\d{4}"
    ),
    "money": (
        r"budgets?|costs?|prices?|pricing|discounts?|salar\w+|invoices?|usd|eur|gbp|dollars?|euros?|revenue|margins?"
        r"|rates?|quotes?|commercial\w*|financ\w+|billing|copay\w*|\$\d\S*|€\d\S*|£\d\S*"
    ),
    "credentials": r"tokens?|passwords?|credentials?|secrets?|api keys?|keys|logins?|certificates?|pin",
    "customer": r"customers?|clients?|accounts? names?|customer-\w+|client-\w+|mapping\w*",
    "contract": r"contracts?|legal\w*|redlines?|clauses?|renewals?|terms?|agreements?|nda",
    "incident": r"incidents?|outages?|postmortems?|root cause|diagnosis|incident-\w+|breach\w*|vulnerabilit\w+|bridge",
    "status": r"status|logs?|logs-only|reproduction\w*|repro|progress|milestones?|blockers?|high-level",
}
_PATTERNS: dict[Topic, re.Pattern[str]] = {
    topic: lazy_pattern(rf"(?<![\w-])(?:{stems})(?![\w])", re.IGNORECASE) for topic, stems in _STEMS.items()
}
#: A time or a day. It makes the topic the schedule if no other topic matches.
_WHEN = lazy_pattern(
    r"\b\d{1,2}(?::\d\d)?\s?(?:am|pm)\b|\b\d{1,2}:\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\btomorrow\b",
    re.IGNORECASE,
)


#: Treatments. Their topic is health, unless a time makes them part of a schedule.
_TREATMENT = lazy_pattern(
    r"(?<![\w-])(?:labs?|lab-\w+|tests?|imaging|scans?|ultrasound\w*|mri|x-ray\w*|biops\w+|blood\w*|assessment|oncolog\w+"
    r"|specialty|treatment\w*|surger\w+|therap\w+|charts?|hospital\w*|vaccin\w+|h\w*cg)(?!\w)",
    re.IGNORECASE,
)


def topics_of(text: str) -> frozenset[Topic]:
    """Return the topics of a text."""
    return _cached_topics(text) if len(text) <= MAX_SENTENCE_LENGTH else _match_topics(text)


@lru_cache(maxsize=4096)
def _cached_topics(text: str) -> frozenset[Topic]:
    return _match_topics(text)


def _match_topics(text: str) -> frozenset[Topic]:
    found: set[Topic] = {topic for topic, pattern in _PATTERNS.items() if pattern.search(text)}
    if _WHEN.search(text):
        found.add("schedule")
    elif _TREATMENT.search(text):
        found.add("health")
    return frozenset(found)
