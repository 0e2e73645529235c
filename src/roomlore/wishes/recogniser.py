"""Hears a wish in a message, by rules: who is to forget what, between whom it stays, from whom it is kept.

Precise rather than complete: what hides words by mistake costs more than what is asked for again. A sentence that
asks, quotes, supposes or speaks of a file, a branch or a setting is no wish.
"""

import re
from collections.abc import Sequence

from roomlore.wishes.marks import TOKEN, names, strong_values
from roomlore.wishes.matters import matters
from roomlore.wishes.parties import parties
from roomlore.wishes.records import Matter, Person, Wish

#: What is longer is a document that tells about wishes, if anything.
LONGEST = 2_000

_I = re.IGNORECASE
#: One of these stands in every wish: whoever says none is passed over quickly.
HINT = re.compile(
    r"forget|forgot|delet|remov|eras|purg|wip|scrub|redact|clear|retain|restat|unavailable|remember|off the record|off-record"
    r"|between|private|secret|confiden|tell|told|share|mention|repeat|only|revok|not |n't|no longer|withh|hide|keep",
    _I,
)
_SENTENCE = re.compile(r"[^.!?;\n]+(?:[.!?;](?!\s|$)[^.!?;\n]+)*[.!?;]*")
_QUOTE_LINE = re.compile(r"^\s*>.*$|```.*?(?:```|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)

_POLITE = (
    r"(?:(?:ok(?:ay)?|please|pls|plz|oh|oops|sorry|hey|hi|no|actually|also|and|so|now|just|well|then|wait|hmm|thanks|"
    r"can you|could you|would you|can we|i(?:'d| would) like you to|i want you to|i need you to|we need to|you can|let's|"
    r"security action|request|reminder|everyone|everybody|all|guys|folks|team|@?[\w.-]+)[,:]?\s+){0,4}?"
)
_ERASE = r"(?:forget|delete|remove|erase|purge|wipe|scrub|redact|strike|clear|drop)"
_ERASED = r"(?:forgotten|deleted|removed|erased|purged|wiped|scrubbed|redacted|cleared|struck)"
_MEMORY = (
    r"(?:(?:from|in|out of) (?:your|the|our|my|any|all|shared|active|its|this)?\s*(?:\w+\s+){0,2}"
    r"(?:memory|memories|recollection|recall|chart|file on me|records?|notes?|history))"
)
_SPOKEN = r"(?:said|told|mentioned|wrote|posted|shared|asked|typed|sent|stated|revealed)"
_OWN_WORDS = (
    rf"(?:what|that thing|everything|anything|all|the (?:thing|bit|part|stuff)|stuff|whatever)(?: that| which)? (?:i|i've|i have|we) (?:just |have |had |ever |once )*{_SPOKEN}"
    r"|my (?:last|previous|earlier|prior|above|latest|first) (?:few |two |three )?(?:messages?|comments?|answers?|statements?|posts?|remarks?|lines?|notes?)"
    r"|(?:that|the|this) (?:last |previous )?(?:message|comment|answer|remark|statement) (?:of mine|i (?:just )?(?:sent|wrote|posted|made))"
)
#: About people: how they are reached, what they are called, what was noted of them.
_RECORD = (
    r"(?:phone|number|numbers|contact|contacts|alias|aliases|callback|call-?back|address|nickname|voicemail|wording|"
    r"e-?mail|birthday|diagnosis|instruction|instructions|desk (?:line|number)|backup line|site name|place name|room \d+|"
    r"extension \d+|customer mapping|mapping|safe (?:line|number|contact)|details?|label|token|password|credential|secret|pin)"
)
#: What is deleted in a workshop and has nothing to do with who may know what.
_WORKSHOP = re.compile(
    r"\b(?:branch(?:es)?|files?|folders?|director(?:y|ies)|packages?|commits?|repo\w*|containers?|images?|tables?|rows?|columns?|"
    r"index(?:es)?|config\w*|functions?|class(?:es)?|methods?|variables?|scripts?|drivers?|kernels?|partitions?|disks?|"
    r"database|db|migrations?|tests?|tickets?|issues?|pull requests?|prs?|builds?|deploy\w*|servers?|apps?|module\w*|"
    r"dependenc\w+|imports?|lines? \d+|slides?|paragraphs?|sections?|chapters?|cells?|sheets?|events?|meetings?|"
    r"cache|cookies?|logs?|bots?|channel|room|group|windows?|panel|button|screen|menu|widget|layer|"
    r"xorg|apt|sudo|rm|dpkg|grub|purge|clauses?|auto-renewal|redlines?)\b",
    _I,
)
_NOT_YET = re.compile(r"\b(?:after|once|when|if|unless|until|before)\b(?! (?:this|the) (?:bridge|stage|call|meeting))", _I)
_DENIED = re.compile(
    r"\b(?:don'?t|do not|never|didn'?t|did not|won'?t|can'?t|cannot|couldn'?t|wouldn'?t|not|no need to|without|shouldn'?t|should not|nobody|how (?:do|to|can)|"
    rf"why|did (?:you|we|i|he|she|they)|have (?:you|i|we)|had to|used to|tried to|try(?:ing)? to|trying|if|would|might|may|will|going to|wish i could|want to be able to)\s+(?:\w+\s+){{0,3}}?(?={_ERASE}\b)",
    _I,
)
_THANKS = r"(?:,? (?:please|pls|thanks|thank you|ok(?:ay)?|everyone|everybody|all|guys|folks|for now))*"

_BARE_FORGET = re.compile(
    rf"^{_POLITE}(?:forget|delete|erase|scrub|strike|unsee) (?:that|this|what i said|it all)(?: (?:please|pls|from (?:your )?memory|message|last (?:message|one|bit|part)))?{_THANKS}[.! ]*$",
    _I,
)
_FORGET_SAID = re.compile(rf"^{_POLITE}{_ERASE} (?:about )?(?:{_OWN_WORDS})", _I)
_FORGET_I_SAID = re.compile(
    rf"^{_POLITE}(?:forget|pretend) (?:that )?(?:i (?:ever |just )?(?:{_SPOKEN})|you (?:ever )?(?:heard|read|saw)) (?:that|this|anything|it)\b"
    rf"|^{_POLITE}pretend i (?:didn'?t|never) (?:say|said|mention(?:ed)?|write|wrote|post(?:ed)?) (?:that|this|anything|it)\b"
    rf"|^{_POLITE}forget (?:that )?i (?:ever )?(?:said|mentioned|told you|brought up) ",
    _I,
)
_FORGET_ABOUT_ME = re.compile(rf"^{_POLITE}(?:forget|erase|delete) (?:that|how) (?:i|my)\b|^{_POLITE}(?:forget|erase|delete) (?:everything|all) (?:about|on) (?:me|my)\b", _I)
_FORGET_MEMORY = re.compile(rf"^{_POLITE}{_ERASE}\b[^?]*\b{_MEMORY}", _I)
_FORGET_RECORD = re.compile(rf"^{_POLITE}(?:delete|erase|forget|scrub|purge|wipe|redact)\b[^?]*\b{_RECORD}\b", _I)
_STAYS_FORGOTTEN = re.compile(
    rf"\b(?:should|must|is to|are to|to) be (?:treated as )?(?:{_ERASED}|unavailable)\b"
    rf"|\b(?:should|must|do|may|can)(?: not|n'?t|never) (?:be )?(?:retain|restat|remember|reintroduc)(?:e|ed)?\b[^?]*"
    rf"|\bi (?:want|need|would like|'d like)\b[^?]*\b{_ERASED}\b(?:[^?]*\b{_MEMORY}| now\b)"
    rf"|\bdo not want\b[^?]*\bkept\b",
    _I,
)
_RECORDED = re.compile(
    rf"\b(?:deletion|delete|erasure|removal) request\b[^?]*\b(?:recorded|executed|entered|processed|noted|done|completed?)\b"
    rf"|\b(?:{_ERASED})\b[^?]*\b{_MEMORY}"
    rf"|^(?:deleted|removed|erased|cleared)\b[^?]*\b{_RECORD}\b"
    rf"|\bis (?:retired|removed) and deleted\b",
    _I,
)
#: What a sentence that forgets something keeps: the clause after these says what may still be said.
_KEPT = re.compile(
    r"(?:[,;]|\band\b|\bbut\b)\s*(?:and |but )?(?:left only|keep(?:ing)? only|keep only|still|may still|you may|use (?:only )?|please use|just keep|only keep|kept only|keep the fact|the current|the active|leave)\b.*?(?=, but\b|$)"
    r"|^.*\b(?:may still|can still|keep only|only the current|remains? active|is (?:the )?(?:only )?(?:current|active)|going forward use)\b.*?(?=,? but\b|$)",
    _I | re.DOTALL,
)

_CONFIDE = re.compile(
    r"\b(?:(?:this|that|what i|it'?s|strictly|totally|completely|all) (?:is|was|are|stays|said is|just said is)?\s*)?(?:strictly |totally |completely )?off[ -]the[ -]record\b(?! (?:player|button|store|label|shop))"
    r"|\b(?:just|strictly|only|keep (?:this|that|it|the \w+(?: \w+)?)|stays?|this (?:is|stays)|that (?:is|stays)) (?:just |strictly |only )?between (?:us|you and (?:me|i)|the (?:two|three) of us|ourselves|friends)\b"
    r"|^between (?:you and (?:me|i)|us)\b|\bbetween you,? me and the (?:lamp|gate|bed)post\b"
    r"|\bkeep (?:this|that|it|what i (?:just )?said) (?:private|confidential|secret|to yoursel(?:f|ves)|quiet|hush|under your hat|in confidence)\b"
    r"|\b(?:don'?t|do not|never|please don'?t) (?:tell|share|mention|repeat|spread|pass) (?:(?:this|that|it|any of (?:this|that|it)|what i (?:just )?said)(?: (?:on|around|with|to))?(?: (?:anyone|anybody|others|other people|a soul|the others))?|(?:anyone|anybody|others|a soul|the others)(?: (?:about )?(?:this|that|it|what i said))?)(?: else)?(?=\s*(?:[.,!;:-]|$|ok|please|yet|about|outside))"
    r"|\b(?:told|tell(?:ing)?|said|saying|say) (?:you )?(?:this |that |it )?in (?:strict )?(?:confidence|private)\b|^in (?:strict )?confidence\b|^confidentially,"
    r"|\bfor your (?:eyes|ears) only\b|\bnobody (?:else )?(?:may|must|should|needs to|has to) know\b",
    _I,
)
_NOT_CONFIDED = re.compile(
    r"\b(?:said|says|told me|asked|was told|wants?|they|he|she|who|why|what does|what is|meaning of|idiom|between the lines|"
    r"def |class |attribute|field|method|repo|repository|key|branch|mode|chan(?:nel)?|stackoverflow|github)\b",
    _I,
)
_SELF_AHEAD = re.compile(r"^\W*(?:strictly |totally |just |ok,? |so,? )*(?:off[ -]the[ -]record|between (?:you and (?:me|i)|us)|confidentially|in (?:strict )?confidence)\b[,:;. -]*(?=\S)", _I)

_CAN = r"(?:may|can|should|must|could|shall|is (?:allowed|permitted|cleared) to|gets? to|has to|needs? to)"
_KNOW = r"(?:receive|see|hear|get|have|know|access|be told|learn|find out|view|read|be given|be shown|be copied)"
_NEVER = (
    r"(?:don'?t|do not|never|nobody|no one|must not|mustn'?t|should not|shouldn'?t|cannot|can'?t|may not|not to|won'?t|will not)"
)
#: Who is kept from what, by how it is said; `who` names them.
_SECRETS = (
    re.compile(
        rf"\b{_NEVER}\s+(?:ever |please |even )*(?:tell|show|let|give|send|copy|inform|cc|update|notify)\s+(?P<who>(?:\w+[ ]?){{1,4}})", _I
    ),
    re.compile(
        rf"\b{_NEVER}\s+(?:ever |please |even )*(?:share|discuss|mention|reveal|disclose|forward|leak|pass|release|give|send|say|repeat|show|talk)\b"
        r"[^.?!]*?\b(?:to|with|around|in front of)\s+(?P<who>.+)",
        _I,
    ),
    re.compile(r"\b(?:keep|hide|withhold|kept|withheld|hidden|stay|stays|private|secret)\b[^.?!]*?(?<!separate )(?<!away )(?<!different )\bfrom\s+(?P<who>.+)", _I),
    re.compile(r"\bno longer (?:share|release|discuss|disclose|send|give)\b[^.?!]*?\b(?:to|with)\s+(?P<who>.+)", _I),
    re.compile(
        rf"(?P<who>[^.?!;:]*?)\b(?:(?:may|must|should|can|could|shall|is|are|does|do|will) ?(?:not|n'?t|never)|cannot|no longer|should no longer"
        rf"|(?:may|must|should|can|will) never)\s+(?:\w+\s+)?{_KNOW}\b",
        _I,
    ),
    re.compile(r"\b(?:behind)\s+(?P<who>\w+)'?s? back\b|\bwithout\s+(?P<also>\w+)\s+(?:knowing|finding out|hearing)\b", _I),
)
#: Whose something is, which is not who may know it.
_OWNERS = re.compile(r"\b[\w.]+(?: [A-Z]\w+)?'s?\b(?! (?:\S+ ){0,3}?(?:access|scope|permissions?|clearance)\b)")
_OBJECTS = re.compile(r"\b(?:to|for|of|about|outside|with|at|by) (?:[A-Z][\w.]*\s*)+")
_ONLY = re.compile(
    rf"(?:\b\w+-only\b|\b(?:logistics|scheduling|schedules?|rides?|timing|times?|status|logs)(?: \w+)? only\b|\bonly\b[^.?!]*\b{_KNOW}\b|\b{_CAN}\b[^.?!]*\b{_KNOW}\b[^.?!]*\bonly\b"
    rf"|\b{_KNOW}s?\b[^.?!]*\bonly\b|\blimited to\b|\bonly .*?\baccess\b|\baccess is\b[^.?!]*\bonly\b)",
    _I,
)
_REVOKED = re.compile(
    r"\brevok(?:e|ed|ing)\b|\b(?:remove|end|cancel|close|cut|stop)\b[^.?!]*\baccess\b|\bremoved from\b[^.?!]*\b(?:permissions?|access|contacts?)\b|\bno longer (?:has|have|receive)\b"
    r"|\bno more [^.?!]*\baccess\b",
    _I,
)
_OWN_SCOPE = re.compile(
    r"^(?!\W*(?:if|since|when)\b)[^?]*\b(?:my (?:access|scope|role|clearance)\b[^.?!]*(?:only\b|limited to\b|\bnot\b)|i(?:'m| am) (?:only )?(?:attached|cleared|assigned|approved)\b[^.?!]*\bonly\b"
    r"|i (?:still )?only have\b[^.?!]*\b(?:scope|access|clearance)\b|i should not (?:receive|see|have|get|be (?:told|given)|access)\b)",
    _I,
)
_CLAUSE = re.compile(r"[:,;]|\bbecause\b|\bbut\b|\bsince\b", _I)
_FIRST_PERSON = re.compile(r"^\W*(?:i|we) (?:can|could|may|will|must) only\b", _I)
_ASKS = re.compile(r"\?\s*$")
_NOTED = re.compile(r"\b(?:note|entered|saved|documented|recorded|updated?|logged)\b", _I)
_PERMITTED = re.compile(r"\b(?:approved|allowed|granted|cleared|restored|reopened)\b", _I)
_GROUPS_OUT = re.compile(r"\b(?:stays?|remains?|kept|keep)\b[^.?!]*\b(?:inside|within|in)\b[^.?!]*\b(?:room|team|group|circle)\b(?: only)?", _I)


def may_wish(body: str) -> bool:
    """Return whether a body may hold a wish at all; quick, and wrong only in letting through."""
    return len(body) <= LONGEST and HINT.search(body) is not None


def heard(body: str, author: Person, people: Sequence[Person]) -> Wish | None:
    """Return what a message wishes, or None.

    Args:
        body: What was said.
        author: Who said it.
        people: Who takes part in the room, by the names that were last known; the author may be among them.
    """
    if not may_wish(body):
        return None
    text = _QUOTE_LINE.sub(" ", body).replace("’", "'")
    sentences = [match[0].strip() for match in _SENTENCE.finditer(text) if match[0].strip()]
    return (
        _forgetting(sentences, people)
        or _withholding(sentences, author, people)
        or _confiding(sentences)
    )


def is_confidential(body: str) -> bool:
    """Return whether a message itself says that what it tells is not for everybody."""
    text = body.replace("’", "'")
    return bool(
        _GROUPS_OUT.search(text)
        or _CONFIDE.search(text)
        or re.search(r"\b(?:confidential|sensitive|temporary|do not share|not for|nothing more specific)\b", text, _I)
    )


def restricts(body: str) -> bool:
    """Return whether a message states a restriction, whomever it means by it."""
    text = body.replace("’", "'")
    found = (match[0].strip() for match in _SENTENCE.finditer(text))
    return any(
        not _ASKS.search(one) and (_REVOKED.search(one) or ((_ONLY.search(one) or re.search(r"\bonly\b", one, _I)) and matters(one)))
        for one in found
    )


# What is to be forgotten


def _forgetting(sentences: Sequence[str], people: Sequence[Person]) -> Wish | None:
    found: list[Wish] = []
    for sentence in sentences:
        wish = _forget(sentence, people)
        if wish is not None:
            found.append(wish)
    if not found:
        return None
    values = tuple(dict.fromkeys(value for one in found for value in one.values))
    return Wish(
        kind="forget",
        points_back=any(one.points_back for one in found),
        topic=" ".join(one.topic for one in found if one.topic),
        values=values,
        is_record=all(one.is_record for one in found),
    )


def _forget(sentence: str, people: Sequence[Person]) -> Wish | None:
    if _ASKS.search(sentence) and not re.match(r"^\W*(?:please |hey )?(?:can|could|would|will) (?:you|we|someone)\b", sentence, _I):
        return None
    if _BARE_FORGET.match(sentence):
        return Wish(kind="forget", points_back=True)
    if _DENIED.search(sentence):
        return None
    if _FORGET_I_SAID.match(sentence) or _FORGET_SAID.match(sentence):
        if re.search(rf"{_SPOKEN}\s+(?:\w+\s+){{0,3}}(?:in|on|to) (?:slack|email|discord|whatsapp|teams|irc|the phone)", sentence, _I):
            return None
        topic = _topic(sentence)
        return Wish(kind="forget", points_back=not topic, topic=topic, values=_values(sentence, people))
    if _FORGET_ABOUT_ME.match(sentence) and not _WORKSHOP.search(sentence):
        return Wish(kind="forget", topic=_after(sentence, r"(?:that|how|about|on)\s+(?:i|me|my)\b"), values=_values(sentence, people))
    return _forget_record(sentence, people)


def _forget_record(sentence: str, people: Sequence[Person]) -> Wish | None:
    is_record = bool(_RECORDED.search(sentence))
    is_asked = bool(
        _FORGET_MEMORY.match(sentence)
        or _STAYS_FORGOTTEN.search(sentence)
        or (_FORGET_RECORD.match(sentence) and not _WORKSHOP.search(sentence))
    )
    if not (is_asked or is_record) or (_NOT_YET.search(sentence) and not is_record):
        return None
    values = _values(sentence, people)
    if not values and not is_record:
        topic = _topic_of_record(sentence)
        return Wish(kind="forget", topic=topic) if topic and _FORGET_MEMORY.match(sentence) else None
    return Wish(kind="forget", values=values, is_record=is_record and not is_asked) if values else None


def _values(sentence: str, people: Sequence[Person]) -> tuple[str, ...]:
    """Return what a sentence names, without what it keeps and without the people of the room."""
    rest = _KEPT.sub(" ", sentence)
    called = {token.casefold() for person in people for token in TOKEN.findall(person.name)}
    named = [one for one in names(rest) if not {token.casefold() for token in TOKEN.findall(one)} & called]
    return tuple(dict.fromkeys([*strong_values(rest), *named]))


def _topic(sentence: str) -> str:
    match = re.search(r"\b(?:about|regarding|concerning|on the subject of)\s+(.{2,80})", sentence, _I)
    return match[1].strip(" .!?") if match else ""


def _after(sentence: str, pattern: str) -> str:
    match = re.search(pattern + r"\s+(.{2,80})", sentence, _I)
    return match[1].strip(" .!?") if match else ""


def _topic_of_record(sentence: str) -> str:
    match = re.search(rf"\b{_ERASE}\s+(.{{3,100}}?)\s+{_MEMORY}", sentence, _I)
    return match[1] if match else ""


# What stays between those it was said to


def _confiding(sentences: Sequence[str]) -> Wish | None:
    for place, sentence in enumerate(sentences):
        if _ASKS.search(sentence) or not _CONFIDE.search(sentence) or _NOT_CONFIDED.search(sentence):
            continue
        has_more = len(sentences) > 1 or bool(_SELF_AHEAD.match(sentence)) or len(TOKEN.findall(sentence)) > 9  # noqa: PLR2004
        is_last = place == len(sentences) - 1
        return Wish(kind="confide", is_about_itself=has_more, points_back=not has_more and is_last)
    return None


# What is kept from some


def _withholding(sentences: Sequence[str], author: Person, people: Sequence[Person]) -> Wish | None:
    others = [person for person in people if person.id != author.id]
    for sentence in sentences:
        if _ASKS.search(sentence):
            continue
        rule = _restriction(sentence, author, people) or _secret(sentence, others)
        if rule is not None:
            return rule
    return _own_scope(sentences, author)


def _own_scope(sentences: Sequence[str], author: Person) -> Wish | None:
    """Return what somebody says they are not to know themselves; only what they name."""
    if not any(_OWN_SCOPE.search(sentence) for sentence in sentences):
        return None
    shut_out = (re.split(r"\b(?:not|nor)\b", sentence, maxsplit=1, flags=_I) for sentence in sentences)
    denies = frozenset(matter for parts in shut_out for part in parts[1:] for matter in matters(part))
    if not denies:
        return None
    return Wish(kind="withhold", party_ids=frozenset({author.id}), denies=denies, is_standing=True)


def _restriction(sentence: str, author: Person, people: Sequence[Person]) -> Wish | None:
    """Return a restriction that goes on: somebody may know only this, or nothing any more."""
    if _PERMITTED.search(sentence):
        return None
    for clause in _CLAUSE.split(sentence):
        is_revoked = bool(_REVOKED.search(clause))
        if not is_revoked and not (_ONLY.search(clause) and matters(clause)):
            continue
        found = parties(_OWNERS.sub(" ", clause), author, people)
        if found and not _FIRST_PERSON.match(clause):
            return Wish(
                kind="withhold",
                party_ids=found,
                is_standing=True,
                permits=frozenset() if is_revoked else _permitted(clause),
                is_record=bool(_NOTED.search(sentence)),
            )
    return None


def _secret(sentence: str, others: Sequence[Person]) -> Wish | None:
    """Return a wish that somebody is not told something."""
    match = next((match for pattern in _SECRETS if (match := pattern.search(sentence))), None)
    if match is None:
        return None
    named = match["who"] or match.groupdict().get("also") or ""
    if match["who"] and match.start("who") == match.start():
        named = _OBJECTS.sub(" ", named)
    found = parties(_OWNERS.sub(" ", named), None, others)
    if not found:
        return None
    about = matters(sentence[: match.start("who")] + sentence[match.end("who") :] if match["who"] else sentence)
    return Wish(kind="withhold", party_ids=found, denies=about, is_standing=bool(about), points_back=not about)


def _permitted(sentence: str) -> frozenset[Matter]:
    """Return what a restriction lets through: what it speaks of before it says what it shuts out."""
    return matters(re.split(r"\b(?:not|no|nothing|never|without|cannot)\b", sentence, maxsplit=1, flags=_I)[0])
