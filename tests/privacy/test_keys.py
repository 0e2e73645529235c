"""What is a key to whoever reads it, however it is written down, and what is merely made like one."""

import pytest

from roomlore.privacy.identifiers import distinctive_values, is_credential

KEY = "x9k2m4p7q1z8"


@pytest.mark.parametrize(
    "said",
    [
        "**Token:** {}",
        "*token*: `{}`",
        '{{"token": "{}"}}',
        "password -> {}",
        "password => {}",
        "{} is the api key",
        "`{}` is our staging token, for now",
        "{} is the key for the gate",
        "key for staging is {}",
        "the key for the staging server: {}",
        "here's my api key btw: {}",
        "the token for staging: {}",
        "API_KEY={}",
        "export DB_PASSWORD={}",
        "my_key: {}",
        "the token {}",
        "our API key {}",
        "the key is {}",
    ],
)
def test_what_is_called_a_key_is_one_however_that_is_written(said):
    body = said.format(KEY)
    assert KEY in distinctive_values(body)
    assert is_credential(KEY, body)


@pytest.mark.parametrize(
    "key",
    [
        "ghp_ab12cd34ef56gh",
        "github_pat_11ABCDE0Y0aB3",
        "sk-ab12-cd34ef56",
        "xoxb-2048-a1b2c3d4",
        "AKIA1234EXAMPLE56",
        "glpat-a1B2c3D4e5F6",
    ],
)
def test_a_key_that_says_so_by_how_it_begins_needs_no_calling(key):
    body = f"here you go: {key}"
    assert key in distinctive_values(body)
    assert is_credential(key, body)


@pytest.mark.parametrize(
    "said",
    [
        "the primary key {}",
        "we sort by the key {}",
        "the monkey: {}",
        "{} is the primary key",
        "{} is the key invoice",
        "{} is not the password",
        "{} is no secret",
        "{} is paid, the token is elsewhere",
        "the password was lost, so: {}",
        "the key to success is {}",
        "a passwordless {}",
    ],
)
def test_what_is_made_like_a_key_and_is_called_something_else_is_none(said):
    assert not is_credential("INV2024A0017", said.format("INV2024A0017"))
