"""Decides whether a privacy request takes effect at once or waits for a person.

Only an unmistakable request takes effect at once. It is the whole message, it is neither hedged nor quoted, and it is
clear what it refers to. Hiding messages by mistake costs more than asking a person.
"""

import re
from collections.abc import Sequence

from roomlore.db.privacy_requests import RoomMessage
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.rendering import without_attachments
from roomlore.privacy import patterns
from roomlore.privacy.identifiers import with_straight_apostrophes
from roomlore.privacy.records import BY_RULES, PrivacyRequest, RequestMessage
from roomlore.privacy.scope import RECENT, referenced_messages

#: Characters. A longer message contains more than a request.
MAX_PLAIN_LENGTH = 200
#: Characters. The limit for a message that begins with a label: "off the record: …".
LONGEST_LABELLED = 400

BY_MODEL = "a model takes it for a request, but not with certainty"
ONGOING = "it would also cover later messages"
REPORT = "it reports a request and makes none"
NOT_PLAIN = "it is part of a longer message, or is not put as a plain request"
HEDGED = "it is hedged, conditional or a joke"
QUOTED = "it quotes something"
UNCLEAR = "it is not clear what it refers to"

_I = re.IGNORECASE
_QUOTES = lazy_pattern(r"^\s*>|`|[\"\u201c\u201d]", re.MULTILINE, most=LONGEST_LABELLED)
_HEDGED = lazy_pattern(
    r"\b(?:if|unless|until|maybe|perhaps|might|could|would|should|once|after|before|when|while|probably|possibly|"
    r"i think|i guess|i suppose|in case|lol|lmao|haha\w*|jk|kidding|joking)\b|[:;]-?[)DPp](?:\s|$)",
    _I,
    most=MAX_PLAIN_LENGTH,
)
_JOKED = lazy_pattern(
    r"\b(?:lol|lmao|haha\w*|jk|kidding|joking)\b|[:;]-?[)DPp](?:\s|$)", _I, most=LONGEST_LABELLED
)

_POLITE = (
    r"(?:(?:please|pls|plz|sorry|oops|whoops|ugh|hey|hi|ok|okay|no|wait|everyone|everybody|folks|guys|team|bot|"
    r"wrong (?:chat|room|window)|@[\w.-]{1,40}|[\w.-]{1,40}(?=[,:]))[,:.!]?\s+){0,3}"
)
_END = r"(?:,?\s+(?:please|pls|plz|thanks|thank you|everyone|everybody|folks|guys|ok|okay))?[\s.!]*"
_VERB = r"(?:forget|delete|remove|erase|purge|wipe|scrub|redact|strike|unsee)"
_IT = r"(?:this|that|it)"
_SAID = rf"what (?:i|we) (?:(?:just|have|had) )?{patterns.SAID_VERB}"
_MINE = (
    r"(?:my|that|the) (?:last|previous|earlier|latest) (?:message|messages|comment|post|remark)(?: of mine)?"
)
_TOPIC = r"(?: (?:about|regarding|concerning) [\w'./ -]{2,60}?)?"
_MEMORY = r"(?: from (?:(?:your|the|our|all) )?memory)?"
#: A whole message that asks to forget something.
PLAIN_FORGET = lazy_pattern(
    _POLITE
    + rf"(?:(?:forget|delete|erase|scrub|strike|unsee) {_IT}(?: message)?{_MEMORY}"
    + rf"|{_VERB} (?:about )?(?:{_SAID}(?: earlier| above| before)?|{_MINE}){_TOPIC}{_MEMORY}"
    + rf"|(?:forget|pretend) (?:that )?i (?:ever )?{patterns.SAID_VERB} (?:this|that|it|anything)"
    + rf"|pretend i (?:didn't|never) (?:say|said|mention|mentioned|write|wrote|post|posted) {_IT}"
    + rf"|(?:don't|do not) (?:remember|memori[sz]e) {_IT}|(?:don't|do not) (?:keep|save|store|put) {_IT} in (?:your |the )?memory)"
    + _END,
    _I,
    most=MAX_PLAIN_LENGTH,
)
#: A whole message that asks to forget a named value.
PLAIN_FORGET_VALUE = lazy_pattern(_POLITE + rf"{_VERB} [^;:!?\n]{{3,160}}" + _END, _I, most=MAX_PLAIN_LENGTH)
_NEXT_SENTENCE = lazy_pattern(r"[.!?]\s+\S", most=MAX_PLAIN_LENGTH)

_ANYBODY = r"(?:anyone|anybody|the others|others|other people|a soul)(?: else)?"
#: A whole message that asks for confidentiality.
PLAIN_CONFIDENTIAL = lazy_pattern(
    _POLITE
    + rf"(?:(?:{_IT}(?:'s| is| was| stays?)? |keep {_IT} )?(?:just |strictly |only )?between (?:us|you and me|the two of us|ourselves)"
    + rf"|keep (?:{_IT}|{_SAID}) (?:private|confidential|secret|quiet|to yoursel(?:f|ves)|under your hat|in confidence)"
    + rf"|(?:don't|do not|never) tell {_ANYBODY}(?: about {_IT})?"
    + rf"|(?:don't|do not|never) (?:share|mention|repeat|spread) (?:{_IT}|{_SAID})(?: (?:to|with) {_ANYBODY})?"
    + rf"|(?:{_IT}(?:'s| is| was| stays) )?off the record|{_IT} stays in this (?:room|chat|group)|mum's the word)"
    + _END,
    _I,
    most=MAX_PLAIN_LENGTH,
)
#: A label at the beginning of a message that makes the rest of the message confidential.
CONFIDENTIAL_LABEL = lazy_pattern(
    r"(?:please[, ]+)?(?:strictly )?(?:off[ -]the[ -]record|confidentially|in (?:strict )?confidence|for your (?:eyes|ears) only|"
    r"just between us)(?:, ?[\w.'-]{1,40})?[:,]\s*\S",
    _I,
    most=LONGEST_LABELLED,
)

_WHO = (
    r"(?:(?:my|our|the) )?[\w][\w.'-]{0,40}(?: (?-i:[A-Z])[\w.'-]{0,40})?(?:,? (?:and|or) (?:my )?[\w][\w.'-]{0,40}"
    r"(?: (?-i:[A-Z])[\w.'-]{0,40})?)?"
)
_WHAT = rf"(?: about [\w'./ -]{{2,60}}?| {_IT})?"
#: A whole message that asks to hide something from somebody.
PLAIN_RESTRICT = lazy_pattern(
    _POLITE
    + rf"(?:(?:don't|do not|dont|never|nobody) tell {_WHO}{_WHAT}"
    + rf"|(?:don't|do not|dont|never) let {_WHO} (?:know|find out|hear){_WHAT}"
    + rf"|(?:don't|do not|dont|never) (?:share|mention|show|reveal|repeat|discuss) (?:{_IT}|{_SAID}|my [\w'-]{{2,40}}) (?:to|with) {_WHO}"
    + rf"|keep (?:{_IT}|my [\w'-]{{2,40}}) from {_WHO}|not a word to {_WHO}{_WHAT})"
    + _END,
    _I,
    most=MAX_PLAIN_LENGTH,
)


def review_reason(message: RequestMessage, before: Sequence[RoomMessage]) -> str:
    """Return why a person has to confirm a request; empty if the request is unmistakable."""
    request = message.request
    if message.detected_by != BY_RULES:
        return _model_reason(message, before)
    if request.is_record:
        return REPORT
    if request.is_ongoing and not request.denied:
        return ONGOING
    return _wording_reason(request, without_attachments(message.message.body)) or _reference_reason(
        request, message.message, before
    )


def _model_reason(message: RequestMessage, before: Sequence[RoomMessage]) -> str:
    if not message.request.is_certain:
        return BY_MODEL
    if len(without_attachments(message.message.body)) > MAX_PLAIN_LENGTH:
        return NOT_PLAIN
    return _reference_reason(message.request, message.message, before)


def _wording_reason(request: PrivacyRequest, body: str) -> str:
    text = with_straight_apostrophes(body).strip()
    if (
        request.kind == "confidential"
        and len(text) <= LONGEST_LABELLED
        and "\n" not in text
        and CONFIDENTIAL_LABEL.match(text)
    ):
        return QUOTED if _QUOTES.search(text) else HEDGED if _JOKED.search(text) else ""
    if len(text) > MAX_PLAIN_LENGTH:
        return NOT_PLAIN
    if _QUOTES.search(text):
        return QUOTED
    if _HEDGED.search(text):
        return HEDGED
    return "" if _is_plain(request, text) else NOT_PLAIN


def _is_plain(request: PrivacyRequest, text: str) -> bool:
    if request.kind == "confidential":
        return PLAIN_CONFIDENTIAL.fullmatch(text) is not None
    if request.kind == "restrict":
        return PLAIN_RESTRICT.fullmatch(text) is not None
    if PLAIN_FORGET.fullmatch(text) or patterns.FORGET_MINE.fullmatch(text):
        return True
    is_named = bool(request.identifiers) and PLAIN_FORGET_VALUE.fullmatch(text) is not None
    return is_named and _NEXT_SENTENCE.search(text) is None


def _reference_reason(request: PrivacyRequest, message: RoomMessage, before: Sequence[RoomMessage]) -> str:
    """Return a doubt about the message that a request refers to; empty if there is no doubt.

    There is a doubt if this message does not exist or is far back.
    """
    refers = request.refers_back or bool(request.subject)
    if request.identifiers or request.is_ongoing or (request.kind != "forget" and not refers):
        return ""
    referenced = referenced_messages(request, message, before)
    if not referenced:
        return UNCLEAR
    is_named = bool(request.subject) or message.reply_to is not None
    return "" if is_named or {each.id for each in before[-RECENT:]}.intersection(referenced) else UNCLEAR
