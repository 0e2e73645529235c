"""English phrases in which privacy requests are stated; each pattern matches a whole clause."""

import re

from roomlore.domain.patterns import lazy_pattern, sentence_pattern

_I = re.IGNORECASE


def _any_of(sounds: str) -> re.Pattern[str]:
    """Return a pattern for any of these words. It is case-sensitive, because ignoring case is many times slower."""
    return lazy_pattern("|".join(re.escape(one.replace("_", " ")) for one in sorted(sounds.split())))


#: Every request to forget contains one of these words; most messages contain none. `_` stands for a space.
FORGET_WORDS = _any_of(
    """
    forget forgot delet remov eras purg wipe scrub redact clear retain restat pretend unsee reintroduc unavailable strike
    remember_that remember_this remember_it remember_what memori in_memory in_your_memory in_the_memory
    """
)
CONFIDENTIAL_WORDS = _any_of(
    """
    record between private secret confiden yoursel your_hat your_eyes your_ears anyone anybody a_soul others share_this
    share_that share_it need_to_know needs_to_know for_sharing this_room this_chat this_group mum's_the on_the_down
    under_wraps on_the_dl on_the_quiet
    """
)
#: Every restriction contains a word of this list and a word of the next list.
NEGATIONS = _any_of("n't not never only nobody no_ revok hide keep kept withh behind without dont cant remov")
RESTRICT_WORDS = _any_of(
    """
    tell show let_ share discuss mention reveal disclos access scope revok hide withh kept keep receive hear only behind
    without copy inform notify give send forward release talk not_see not_know never_know not_get role_ clearance to_know
    n't_know cant_know find_out word_to
    """
)

#: Every request of any kind contains one of these words.
ANY_REQUEST = lazy_pattern("|".join(one.pattern for one in (FORGET_WORDS, CONFIDENTIAL_WORDS, NEGATIONS)))

POLITE = (
    r"(?:(?:ok(?:ay)?|please|pls|plz|oh|oops|whoops|ugh|argh|sorry|my bad|scratch that|wrong (?:chat|room|window)|hey|hi|no|actually|also|and|so|now|just|well|then|wait|hmm|thanks|"
    r"can you|could you|would you|can we|i(?:'d| would) like you to|i want you to|i need you to|we need to|you can|let's|"
    r"security action|request|reminder|everyone|everybody|all|guys|folks|team|@[\w.-]+|[\w.-]+(?=[,:]))[,:]?\s+){0,4}?"
)
_VERB = r"(?:forget|delete|remove|erase|purge|wipe|scrub|redact|strike|clear|drop)"
_DONE = r"(?:forgotten|deleted|removed|erased|purged|wiped|scrubbed|redacted|cleared|struck)"
MEMORY = (
    r"(?:(?:from|in|out of) (?:(?:your|the|our|my|any|all|shared|active|its|this)\s+)?(?:\w+\s+){0,2}"
    r"(?:memory|memories|recollection|recall|records?|file on me)\b)"
)
SAID_VERB = r"(?:said|told|mentioned|wrote|posted|shared|asked|typed|sent|stated|revealed)"
_OWN_WORDS = (
    r"(?:(?:what|that thing|everything|anything|all|the (?:thing|bit|part|stuff)|stuff|whatever)(?: that| which)? "
    rf"(?:i|i've|i have|we) (?:just |have |had |ever |once )*{SAID_VERB}"
    r"|my (?:last|previous|earlier|prior|above|latest|first) (?:few |two |three )?"
    r"(?:messages?|comments?|answers?|statements?|posts?|remarks?|notes?)"
    r"|(?:that|the|this) (?:last |previous )?(?:message|comment|answer|remark|statement) "
    r"(?:of mine|i (?:just )?(?:sent|wrote|posted|made)))"
)
#: Records about people: contact data, names, notes.
_RECORD = (
    r"(?:phone|number|numbers|contact|contacts|alias|aliases|callback|call-?back|address|nickname|voicemail|wording|"
    r"e-?mail|birthday|diagnosis|instruction|instructions|desk line|backup line|site name|place name|room \d+|"
    r"extension \d+|customer mapping|mapping|safe (?:line|number|contact)|label|token|password|credential|secret|pin)"
)
#: Things that are deleted in technical work.
TECHNICAL_OBJECT = sentence_pattern(
    r"\b(?:branch(?:es)?|files?|folders?|director(?:y|ies)|packages?|commits?|repo\w*|containers?|images?|tables?|rows?|"
    r"columns?|index(?:es)?|config\w*|functions?|class(?:es)?|methods?|variables?|scripts?|drivers?|kernels?|"
    r"partitions?|disks?|database|db|migrations?|tests?|tickets?|issues?|pull requests?|prs?|builds?|deploy\w*|"
    r"servers?|apps?|module\w*|dependenc\w+|imports?|lines? \d{1,5}(?![-\d])|slides?|paragraphs?|sections?|chapters?|cells?|sheets?|"
    r"events?|meetings?|cache|cookies?|logs?|bots?|windows?|panel|button|screen|menu|widget|layer|"
    r"items?|mailbox|inbox|spam|accounts?|users?|bookmarks?|photos?|pictures?|xorg|apt|sudo|rm|dpkg|grub|clauses?)\b"
    r"(?! \d\d)",
    _I,
)
#: Makes a request conditional. The request then does not apply now, or not at all.
CONDITIONAL = sentence_pattern(
    r"\b(?:after|once|when|if|unless|until|before)\b(?! \d| (?:this|the) (?:bridge|stage|call|meeting))", _I
)
NEGATED = sentence_pattern(
    r"\b(?:don'?t|do not|never|didn'?t|did not|won'?t|can'?t|cannot|couldn'?t|wouldn'?t|not|no need to|without|shouldn'?t|"
    r"nobody|how (?:do|to|can)|why|did (?:you|we|i|he|she|they)|have (?:you|i|we)|had to|used to|tried to|"
    r"try(?:ing)? to|trying|if|would|might|may|will|going to|wish i could|want to be able to)\s+(?:\w+\s+){0,3}?"
    rf"(?={_VERB}\b)",
    _I,
)
#: Something that was said on another platform, where Roomlore cannot forget anything.
ELSEWHERE = sentence_pattern(
    rf"{SAID_VERB}\s+(?:\w+\s+){{0,3}}?(?:in|on|to|via|over) "
    r"(?:slack|e-?mail|discord|whatsapp|teams|irc|telegram|signal|twitter|facebook|the phone|zoom)\b",
    _I,
)

BARE_FORGET = sentence_pattern(
    rf"^{POLITE}(?:forget|delete|erase|scrub|strike|unsee) (?:that|this|it all)"
    r"(?: (?:please|pls|from (?:your )?memory|message|last (?:message|one|bit|part)))?"
    r"(?:,? (?:please|pls|thanks|thank you|everyone|everybody|guys|folks))*[.! ]*$",
    _I,
)
#: The maximum number of characters. A longer sentence with a bare "forget that" may only state a change of mind.
SHORT_FORGET = 60
FORGET_SAID = sentence_pattern(rf"^{POLITE}{_VERB} (?:about )?(?:{_OWN_WORDS})", _I)
FORGET_I_SAID = sentence_pattern(
    rf"^{POLITE}(?:forget|pretend) (?:that )?(?:i (?:ever |just )?{SAID_VERB}|you (?:ever |never )?(?:heard|read|saw))"
    r" (?:that|this|anything|it)\b"
    rf"|^{POLITE}pretend i (?:didn'?t|never) (?:say|said|mention(?:ed)?|write|wrote|post(?:ed)?) (?:that|this|anything|it)\b"
    rf"|(?:^|,\s+){POLITE}forget (?:that )?(?:it|this|that) was (?:ever )?{SAID_VERB}\b"
    rf"|^{POLITE}(?:please|pls) (?:don'?t|do not) (?:remember|memori[sz]e) (?:that|this|it|what i (?:just )?said)[.! ]*$"
    rf"|^{POLITE}(?:don'?t|do not) (?:keep|save|store|put) (?:that|this|it|what i (?:just )?said) in (?:your |the )?memory\b"
    rf"|^{POLITE}forget (?:that )?i (?:ever )?(?:said|mentioned|told you|brought up) ",
    _I,
)
FORGET_ABOUT_ME = sentence_pattern(
    rf"^{POLITE}(?:forget|erase|delete) (?:that|how) (?:i|my)\b"
    rf"|^{POLITE}(?:forget|erase|delete) (?:everything|all) (?:about|on) (?:me|my)\b",
    _I,
)
#: A request to forget a personal record of the author. The request names only the kind of record.
FORGET_MINE = sentence_pattern(
    rf"^{POLITE}(?:forget|erase|delete) my ((?:old |new |home |phone |private )?{_RECORD})(?:,? (?:please|pls|thanks))?[.!? ]*$",
    _I,
)
FORGET_MEMORY = sentence_pattern(rf"^{POLITE}{_VERB}\b[^?]*\b{MEMORY}", _I)
FORGET_RECORD = sentence_pattern(
    rf"^{POLITE}(?:delete|erase|forget|scrub|purge|wipe|redact)\b[^?]*\b{_RECORD}\b", _I
)
MEMORY_OBJECT = sentence_pattern(rf"\b{_VERB}\s+(.{{3,100}}?)\s+{MEMORY}", _I)
MUST_BE_FORGOTTEN = sentence_pattern(
    rf"\b(?:should|must|is to|are to|to) be (?:treated as )(?:{_DONE}|unavailable)\b"
    r"|\b(?:should|must) (?:not|never) be (?:retained|restated|remembered|reintroduced)\b"
    r"|(?:^|[:;,]\s*)(?:please )?(?:do not|don'?t|never) (?:retain|restate|reintroduce)\b"
    rf"|\bi (?:want|need|would like|'d like)\b[^?]*\b{_DONE}\b[^?]*\b{MEMORY}",
    _I,
)
REPORTS_DELETION = sentence_pattern(
    r"\b(?:deletion|erasure|removal|delete) request\b[^?]*\b(?:recorded|executed|entered|processed|noted|done|completed?)\b"
    r"|\b(?:recorded|documented|entered|processed|noted|logged)\b[^?]*\b(?:deletion|erasure|removal|delete) request\b"
    rf"|\b{_DONE}\b[^?]*\b{MEMORY}"
    rf"|^(?:deleted|erased|cleared)\b[^?]*\b{_RECORD}\b"
    r"|\bis (?:retired|removed) and deleted\b",
    _I,
)
#: The part of a sentence that names what is to be kept.
KEEPS_CLAUSE = sentence_pattern(
    r"(?:[,;]|\band\b|\bbut\b)\s*(?:and |but )?(?:left only|keep(?:ing)? only|keep only|still|may still|you may|"
    r"use (?:only )?|please use|just keep|only keep|kept only|keep the fact|the current|the active|leave)\b.*?(?=, but\b|$)"
    r"|^.*\b(?:may still|can still|keep only|only the current|remains? active|is (?:the )?(?:only )?(?:current|active)|"
    r"going forward use)\b.*?(?=,? but\b|$)",
    _I | re.DOTALL,
)

_ANYBODY = r"(?:anyone|anybody|others|other people|a soul|the others)(?: else)?"
CONFIDENTIAL = sentence_pattern(
    r"(?<!on or )\boff[ -]the[ -]record\b(?! (?:player|button|store|label|shop))"
    r"|\b(?:just|strictly|only|keep (?:this|that|it|the \w+(?: \w+)?)|stays?) (?:just |strictly |only )?between "
    r"(?:us|you and (?:me|i)|the (?:two|three) of us|ourselves)\b"
    r"|^\W*between (?:you and (?:me|i)|us)\b(?! (?:there|is|are|two|and))|\bbetween you,? me and the (?:lamp|gate|bed)post\b"
    r"|\bkeep (?:this|that|it|what i (?:just )?said) (?:private|confidential|secret|quiet|to yoursel(?:f|ves)|under your hat|"
    r"in confidence)(?=\s*(?:[.,!;:-]|$|ok|please|for now|between|until))"
    rf"|\b(?:don'?t|do not|never) (?:tell {_ANYBODY}|(?:share|mention|repeat|spread|pass) (?:this|that|it|any of (?:this|that|it)|"
    rf"what i (?:just )?said)(?: on)? (?:to|with|around) {_ANYBODY})\b"
    r"|\b(?:don'?t|do not) share (?:this|that)(?=\s*(?:[.,!;:-]|$|ok|please|yet))"
    r"|\b(?:telling|tell|saying|say) (?:you )?(?:this |that |it )?in (?:strict )?confidence\b|^\W*in (?:strict )?confidence\b[,:]"
    r"|\b(?:this|what i (?:just )?(?:said|told you)|this one)(?: is|'s) (?:strictly |really |all )?(?:confidential|private|secret)"
    r"(?=\s*(?:[.,!;:-]|$|but|and|ok|please))|^\W*not for sharing\b"
    r"|\b(?:this|that|it|what i (?:just )?(?:said|told you)) (?:stays in|(?:does not|doesn'?t|must not|never) leaves?) "
    r"this (?:room|chat|group)\b"
    r"|^\W*mum'?s the word\b|\bkeep (?:this|that|it) (?:on the (?:down ?low|dl|quiet)|under wraps)\b"
    r"|^\W*confidentially,|^\W*for your (?:eyes|ears) only\b|\bnobody (?:else )?(?:may|must|should|needs to|has to) know\b",
    _I,
)
NOT_CONFIDENTIAL = sentence_pattern(
    r"\b(?:(?<!\bi )(?<!\bjust )said|says|told me|asked|was told|wants?|they|he|she|who|why|how|what does|what is|meaning of|idiom|difference|"
    r"def|class|attribute|field|method|repo|repository|branch|mode|chan(?:nel)?|stackoverflow|github|went|wasn't|isn't|"
    r"nothing|switch|sync|space|lines)\b",
    _I,
)
CONFIDENTIAL_PREFIX = sentence_pattern(
    r"^\W*(?:strictly |totally |just |ok,? |so,? )*(?:off[ -]the[ -]record|between (?:you and (?:me|i)|us)|confidentially|"
    r"in (?:strict )?confidence|for your (?:eyes|ears) only)\b[,:;. -]*(?=\S)",
    _I,
)

KNOW = r"(?:receive|see|hear|know|access|learn|find out|view|read|get|have|be (?:told|given|shown|copied|informed))"
_NEVER = r"(?:don'?t|do not|never|nobody|no one|must not|mustn'?t|should not|shouldn'?t|not to)"
_LEARN = r"(?:know|find out|hear|see|learn|read)\b"
_THEY = r"(?P<who>(?:(?:my|our|the|your|his|her|their|any of my)\s+)?[\w.'-]+(?:\s+[A-Z][\w.'-]+)?(?:\s+(?:and|or)\s+(?:my\s+)?\w+)?)"
#: The words that name the restricted people; the group `who` contains the names.
RESTRICTED_PEOPLE = (
    sentence_pattern(
        rf"(?<!i )\b{_NEVER}\s+(?:ever |please |even )*(?:tell|show|copy|inform|cc|update|notify|let(?=[^.?!]*\b(?:know|see|hear|find out|read|get|have)\b))\s+"
        rf"(?!if\b|me\b|us\b|you\b|them\b|that\b|it\b|the difference){_THEY}",
        _I,
    ),
    sentence_pattern(
        rf"(?<!i )(?:\b{_NEVER}|\bno longer|\bi (?:do not|don'?t) want (?:you )?to|^(?:please )?stop)\s+(?:ever |please |even )*"
        r"(?:share|sharing|discuss|mention|reveal|disclose|forward|leak|pass|release|give|send|repeat|show|talk)\b"
        rf"[^.?!,]*?\b(?:to|with|around|in front of)\s+{_THEY}",
        _I,
    ),
    sentence_pattern(
        rf"^{POLITE}(?:keep|hide|withhold) (?:this|that|it|these|those|the|my|our|all|everything|anything)\b[^.?!]*?\bfrom\s+"
        rf"(?!\w+ing\b){_THEY}"
        rf"|\b(?:kept|keep) (?:private|secret|hidden|away) from\s+(?P<also>(?:my |our |the )?\w+)",
        _I,
    ),
    sentence_pattern(
        r"(?P<who>(?!I |You |We |They )(?:[A-Z][\w.'-]* ){1,2}|(?:my|our|the) \w+ )(?:do|does) not (?:get|receive|see|hear)\b(?! (?:it|that|the point))",
    ),
    sentence_pattern(
        rf"\b(?:don'?t|do not|wouldn'?t|never) want {_THEY} to {_LEARN}|\b(?:make sure|ensure)(?: that)? (?P<also>(?:my |our |the )?\w+) "
        rf"(?:doesn'?t|does not|won'?t|never) {_LEARN}",
        _I,
    ),
    sentence_pattern(rf"\brather {_THEY} (?:didn'?t|did not|not) {_LEARN}(?P<also>(?!))?", _I),
    sentence_pattern(
        rf"^{POLITE}\b(?:not a word to)\s+{_THEY}|\b(?:say|saying) nothing to\s+(?P<also>(?:my |our |the )?\w+)",
        _I,
    ),
)
#: Verbs whose subject is restricted ("Ana must not see").
NO_ACCESS_MODAL = sentence_pattern(
    r"(?:can'?t|cannot|(?:doesn'?t|does not) (?:need|have) to)\s+(?:ever )?(?:know|find out|hear about)\b|"
    r"(?:(?:may|must|should|shall) (?:not|never)|(?:must|should)n'?t|(?:should |may |does |can )?no longer|"
    rf"(?:has|have) no right to)\s+(?:\w+\s+)?(?:{KNOW}|gets?|receives?)\b",
    _I,
)
SUBJECT = sentence_pattern(
    r"(?<!\S)(?:[\w.'-]+ (?:\([^)]*\) )?){1,5}(?<!\bi )(?<!\byou )(?<!\bit )(?<!\bwe )(?<!\bthat )(?<!\bhe )(?<!\bshe )(?<!\bthey )$",
    _I,
)
_GRANTED = r"(?:may|can|should|must|could|shall|is (?:allowed|permitted|cleared) to)"
_SOME = r"(?:receive|see|hear|access|be told|be given|be shown|get|know|have)"
#: Somebody may see some things but not others.
LIMITED_ACCESS = sentence_pattern(
    rf"\b{_GRANTED} (?:still )?(?:{_SOME}) (?:only )?[^.?!,]{{2,80}}?\bonly\b|\b{_GRANTED} only {_SOME}\b|\b{_GRANTED} {_SOME} only\b"
    r"|\b(?:gets?|receives?|hears?|has|keep \w+ (?:to|at|on)|as|remains?|stays?|for|access is|scope (?:is|for))\b[^.?!,]{0,60}?"
    r"\b(?:[\w-]+[- ]only|only [\w-]+ (?:access|information|details|logistics|times?))\b"
    r"|^\W*(?:[\w-]+ )?(?:family )?(?:logistics|scheduling|schedule|rides?|timing|status)(?: \w+)? only\b|^\W*[\w-]+[- ]only scope\b"
    r"|\b(?:my|family|the) [\w-]+ (?:logistics|scheduling|rides?) only\b|\baccess\b[^.?!,]*\b(?:limited to|only)\b"
    r"|\bonly want\b[^.?!,]*\bhelping with\b",
    _I,
)
REVOKED_ACCESS = sentence_pattern(
    r"\brevok(?:e|ed|ing)\b[^.?!]*\b(?:access|sharing|permissions?|from)\b|\b(?:access|sharing|permissions?)\b[^.?!]*\brevok(?:e|ed|ing)\b"
    r"|^\W*(?:please |also |actually )*(?:remove|end|cancel|close|cut) (?:[\w'-]+ ){1,4}access\b"
    r"|\bremoved from\b[^.?!]*\b(?:permissions?|contacts?)\b|\bno longer (?:has|have)\b[^.?!]*\baccess\b|\bno more (?:\w+ ){0,3}access\b",
    _I,
)
#: Access to a system. This is no restriction of what is said.
SYSTEM_ACCESS = sentence_pattern(
    r"\b(?:ssh|sudo|root|repo\w*|server|database|db|git\w*|admin|vpn|write|read|api|file|disk|internet|network|remote|shell|aws|"
    r"bucket|cluster|wifi|account|login|port|router|dhcp|dns|text-only|read-only|write-only)\b",
    _I,
)
GRANTED = sentence_pattern(r"\b(?:approved|allowed|granted|restored|reopened)\b", _I)
OWN_ACCESS_LIMIT = sentence_pattern(
    r"^(?!\W*(?:if|since|when)\b)[^?]*\b(?:my (?:access|scope|role|clearance)\b[^.?!]*(?:only\b|limited to\b|\bnot\b)"
    r"|i(?:'m| am) (?:only )?(?:attached|cleared|assigned|approved)\b[^.?!]*\bonly\b"
    r"|i (?:still )?only have\b[^.?!]*\b(?:scope|access|clearance)\b"
    r"|i should not (?:receive|see|have|get|be (?:told|given)|access)\b)",
    _I,
)
#: Introduces the words of another person.
REPORTED_SPEECH = sentence_pattern(r"\b(?!i\b|we\b)\w+ (?:said|says|told|asked|wrote|thinks|wants)\b", _I)
RECORD_VERB = sentence_pattern(r"\b(?:note|noted|entered|saved|documented|recorded|updated?|logged)\b", _I)
CLAUSE = sentence_pattern(r"[:,;]|\bbecause\b|\bbut\b|\bsince\b|\bunless\b", _I)
FIRST_PERSON = sentence_pattern(r"^\W*(?:i|we) (?:can|could|may|will|must) only\b", _I)
QUESTION = sentence_pattern(r"(?<!\bok)(?<!\bokay)(?<!\bplease)(?<!\bpls)(?<!\balright)\?\s*$", _I)
ASKS_FAVOUR = sentence_pattern(r"^\W*(?:please |hey )?(?:can|could|would|will) (?:you|we|someone)\b", _I)
#: A possessive. The owner of something need not be a reader of it.
POSSESSIVE = sentence_pattern(
    r"\b[\w.]+(?: [A-Z]\w+)?(?:'s|s')(?!\w)(?! (?:\S+ ){0,3}?(?:access|scope|permissions?|clearance)\b)"
)
OBJECTS = sentence_pattern(r"\b(?:to|for|of|about|outside|with|at|by) (?:[A-Z][\w.]*\s*)+")
WITHIN_GROUP = sentence_pattern(
    r"\b(?:stays?|remains?|kept|keep (?:this|that|it|these)) (?:only |strictly )?"
    r"(?:(?:inside|within) (?:this|our|the)(?: [\w-]+){0,3}?|in (?:this|our)|in the(?: [\w-]+){0,3}?(?= \w+ only\b))"
    r" (?:room|team|group|circle)\b",
    _I,
)
_VERY = r"(?:(?:strictly|very|highly|all|still|extremely|really|private and) )?"
_THIS = r"(?:this|that|it|these|those|them)"
_ENDS = r"(?=\s*(?:[.,;:!)]|$|(?:please|ok|yet|and|but|so)\b))"
#: Words by which a message says of itself that it is not for everybody. Single words are not enough: `case sensitive`,
#: `not for weekends` and `no longer confidential` do not match. Statements that something must not touch water or frost
#: do not match either.
SENSITIVE = sentence_pattern(
    rf"(?:\b(?:is|are|stays?|remains?|be|as)|\b\w+'(?:s|re)) (?:a |the )?{_VERY}confidential\b"
    rf"|^\W*{_VERY}confidential{_ENDS}"
    r"|(?<!\bnot )(?<!\bno longer )(?<!\bnon[ -])(?<!\bno )\bconfidential (?:\w+ )?(?:number|contact|line|address|alias|note|details?|information)\b"
    rf"|^\W*(?:{_THIS}(?: is|'s| are) )?{_VERY}sensitive{_ENDS}"
    rf"|\btreat {_THIS} (?:\w+ ){{0,3}}?as {_VERY}sensitive\b"
    r"|\bnot for (?:everyone|everybody|sharing|others|(?:the )?(?:group|record|public)|(?:broad|wider) \w+)\b"
    rf"|\b(?:do not|don't|never) (?:share|expose|reveal|disclose) (?:any of )?{_THIS}"
    rf"(?:{_ENDS}| (?:to|with|outside|beyond) (?:any(?:one|body)|others?\b|(?:my|our|your|his|her|their) \w|family\b"
    r"|the (?:others|group|room|team|family|public|press|vendors?|customers?|clients?)\b|(?-i:[A-Z])))",
    _I,
)
