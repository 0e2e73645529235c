"""The database gives the expected answers to every viewer."""

import pytest
from hypothesis import HealthCheck, given, settings

from graph.comparing import compare
from graph.telling import Story, facts, stories, tell

generated = settings(
    max_examples=2,
    deadline=None,
    # each example makes an org of its own
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


@pytest.mark.slow
@given(story=stories())
@generated
async def test_the_database_answers_what_the_rule_allows(story: Story, open_app, admin):
    app = await open_app("graph")
    await tell(app, story)
    await compare(app, await facts(admin, app))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(story=stories())
@settings(generated, max_examples=12)
async def test_the_database_answers_what_the_rule_allows_in_many_stories(story: Story, open_app, admin):
    app = await open_app("graph")
    await tell(app, story)
    await compare(app, await facts(admin, app))
