"""Takes secrets out of whatever is about to be stored.

Exports carry live credentials: file addresses with tokens in them, webhook addresses, keys pasted into a
message. What is certainly a secret is replaced by a marker; what only looks odd stays as said.
"""

import re

MARKER = "[secret removed]"

#: Formats that nothing but a credential has.
TOKENS = re.compile(
    r"""
      \bxox[abceoprs]-[\w-]{8,}                       # Slack tokens
    | \bxapp-\d-[\w-]{8,}                             # Slack application tokens
    | \bgh[oprsu]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}                              # GitLab
    | \bsk-(?:ant-|proj-)?[\w-]{20,}                  # language model providers
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                   # AWS access keys
    | \bAIza[\w-]{35}                                 # Google
    | \b\d{8,10}:AA[\w-]{32,}                         # Telegram bots
    | \b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}       # Discord bots
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}         # JSON web tokens
    | -----BEGIN[ A-Z]*PRIVATE[ ]KEY-----.*?(?:-----END[ A-Z]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Values inside addresses.
IN_ADDRESS = re.compile(
    r"""
      (?P<query>[?&](?:token|access_token|auth|api_?key|key|secret|password|sig|signature|x-amz-signature
        |x-amz-security-token)=)[^&\s"'<>|]+
    | (?P<slack>[?&]t=)xo[\w%-]+
    | (?P<webhook>/api/(?:v\d+/)?webhooks/\d+/)[\w-]{20,}
    | (?P<hook>hooks\.slack\.com/(?:services|workflows)/)[\w/-]+
    | (?P<userinfo>\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+(?=@)
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Fields whose value is a secret whatever it looks like.
SECRET_FIELDS = frozenset(
    {"token", "access_token", "refresh_token", "api_key", "apikey", "secret", "client_secret", "password"}
)
#: A cheap look before the expensive one: every pattern above needs one of these.
HINTS = re.compile(
    r"xox|xapp-|gh[oprsu]_|github_pat|glpat|sk-|AKIA|ASIA|AIza|:AA|eyJ|-----BEGIN|://|/webhooks/"
    r"|[?&][a-zA-Z_-]+=|hooks\.slack|[MNO][\w-]{23}"
)


def strip(text: str) -> tuple[str, int]:
    """Return the text with each secret replaced by a marker, and how many there were."""
    if not HINTS.search(text):
        return text, 0
    text, addressed = IN_ADDRESS.subn(_keep_address, text)
    text, tokens = TOKENS.subn(MARKER, text)
    return text, addressed + tokens


def _keep_address(match: re.Match[str]) -> str:
    kept = next(group for group in match.groups() if group is not None)
    return kept + MARKER
