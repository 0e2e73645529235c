"""Memories as a stage: candidates by words and by vectors."""

from collections.abc import Sequence

import pytest

from jobs.models import SMALL, Moody, served
from roomlore.domain.errors import TextRefused
from roomlore.domain.vectors import Vectors
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.search import memory_search
from roomlore.search.fallback_chain import MEMORY_THRESHOLD, MEMORY_WORD_THRESHOLD
from roomlore.search.message_search import SearchQuery
from roomlore.search.records import MatchReason
from search.telling import ANA, BO, PIP, at, closed, message, tell

#: Words that mean the same to the model of these tests.
SAME = {
    "beverage": "drink",
    "captain": "skipper",
    "favours": "prefers",
    "fancy": "prefers",
    "tipple": "drink",
}
TEA = "skipper drink prefers tea"
UNLIKE = "captain beverage favours tea"


class Knowing(FakeEmbedder):
    """A model with synonyms that records what it embeds."""

    def __init__(self, dimensions: int = 384) -> None:
        super().__init__(dimensions)
        self.seen: list[str] = []
        self.refused: str | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.refused is not None and any(self.refused in text for text in texts):
            raise TextRefused("embedding model", "takes nothing like this")
        self.seen.extend(texts)
        known = [" ".join(SAME.get(word, word) for word in text.casefold().split()) for text in texts]
        return super().embed(known)


@pytest.fixture(name="model")
def _model() -> Knowing:
    return Knowing()


@pytest.fixture
async def told(app: App, model: Knowing) -> App:
    red = closed("red", ANA)
    return await tell(
        served(app, model, small=Moody()),
        message("a", "good morning", author=ANA, sent_at=at(1)),
        message("b", "good evening", author=BO, sent_at=at(2)),
        message("r", "hush", room=red, author=ANA, sent_at=at(3)),
    )


def question(model: FakeEmbedder, text: str) -> SearchQuery:
    return SearchQuery(text=text, vector=(model.model_id, model.embed([text])[0]))


async def candidates(app: App, asked: SearchQuery, name: str | None = None) -> dict[str, float | None]:
    """Return the candidates by content, with their similarities."""
    viewer = app.operator if name is None else await app.viewer(name)
    async with app.db.read_transaction(viewer, apply_restrictions=True) as conn:
        found = await memory_search._candidates(
            conn, app.org_id, asked, vectors=[asked.vector, asked.second_vector]
        )
    contents = {memory.id: memory.content for memory in await app.memories.all(viewer, limit=50)}
    return {contents[key]: why.similarity for key, why in found.items()}


async def test_archived_memory_does_not_answer_nor_do_those_it_replaced(told, model):
    memory = await told.memories.remember(TEA, sources=["a"])
    corrected = await told.memories.correct(str(memory.id), "skipper drink prefers rum")
    for left in ([corrected.id], []):
        async with told.db.read_transaction(told.operator, apply_restrictions=True) as conn:
            found = await memory_search.search_memories(
                conn, told.org_id, question(model, TEA), similarities={}
            )
        assert [one.memory.id for one in found.matches] == left
        if left:
            await told.memories.archive(str(corrected.id))


# By meaning


def test_meaning_alone_clears_the_bar_where_it_is_close():
    def fits(**fields) -> float:
        return memory_search._relevance(
            MatchReason(**({"score": 0.0, "similarity": None, "coverage": None, "terms": ()} | fields))
        )

    assert fits(similarity=0.69) < MEMORY_THRESHOLD <= fits(similarity=0.701)
    assert fits(similarity=0.5, coverage=0.4) == 0.45, "with words besides it is the mean"
    assert fits(coverage=0.5) == 0.25
    assert fits(similarity=-0.5) == 0.0


async def test_a_memory_that_shares_no_word_with_the_question_answers(told: App):
    known = await told.memories.remember(TEA, sources=["a"])
    await told.drain()

    answer = await told.ask(told.operator, "captain beverage tipple favours fancy")

    assert (answer.stage, [one.memory.id for one in answer.memories]) == ("memories", [known.id])
    assert answer.text.endswith(TEA)
    assert answer.trace[0].threshold == MEMORY_THRESHOLD


async def test_memory_without_a_vector_is_found_by_words_and_then_compared(told: App):
    known = await told.memories.remember(TEA, sources=["a"])
    assert not (await told.ask(told.operator, "captain beverage favours")).is_answered
    answer = await told.ask(told.operator, "captain beverage favours tea")
    assert (answer.stage, [one.memory.id for one in answer.memories]) == ("memories", [known.id])


async def test_stored_vectors_are_compared_and_nothing_is_embedded_but_the_question(
    told: App, model: Knowing
):
    await told.memories.remember(TEA, sources=["a"])
    await told.drain()
    model.seen.clear()
    answer = await told.ask(told.operator, "tea captain")
    assert answer.stage == "memories"
    assert TEA not in model.seen
    await told.memories.remember("tea is in the galley", sources=["b"])
    await told.ask(told.operator, "tea captain")
    assert "tea is in the galley" in model.seen
    assert TEA not in model.seen


async def test_a_memory_that_the_model_refuses_is_found_by_its_words_alone(told: App, model: Knowing):
    known = await told.memories.remember(TEA, sources=["a"])
    model.refused = "prefers tea"
    answer = await told.ask(told.operator, "which drink has the skipper")
    assert (answer.stage, [one.memory.id for one in answer.memories]) == ("memories", [known.id])
    assert answer.trace[0].threshold == MEMORY_WORD_THRESHOLD


async def test_superseded_memory_is_found_by_vector_under_its_successor(told: App):
    old = await told.memories.remember(TEA, sources=["a"])
    new = await told.memories.remember("coffee it is these days", sources=["b"], supersedes=str(old.id))
    await told.drain()
    answer = await told.ask(told.operator, "captain beverage tipple favours fancy")
    assert [one.memory.id for one in answer.memories] == [new.id]
    assert [one.id for one in answer.memories[0].superseded] == [old.id]


async def test_dissimilar_memories_do_not_answer(told: App):
    for number in range(5):
        await told.memories.remember(f"berth{number} is taken by boat{number}", sources=["a"])
    await told.drain()
    answer = await told.ask(told.operator, "captain beverage favours")
    assert not answer.is_answered
    [step, *_] = answer.trace
    assert (step.stage, step.candidates, step.outcome) == ("memories", 5, "below_threshold")


# For whoever may see it


async def test_nothing_is_found_by_meaning_that_the_viewer_may_not_see(told: App, model: Knowing):
    await told.memories.remember(TEA, sources=["r"])
    mine = await told.memories.remember(UNLIKE, sources=["a"])
    await told.drain()
    asked = question(model, "captain beverage favours tipple")
    assert set(await candidates(told, asked)) == set(await candidates(told, asked, "ana")) == {TEA, UNLIKE}
    assert set(await candidates(told, asked, "bo")) == {UNLIKE}
    answer = await told.ask(await told.viewer("bo"), asked.text)
    assert [one.memory.id for one in answer.memories] == [mine.id]


async def test_memory_without_sources_is_found_only_by_its_agent(told: App, model: Knowing):
    await tell(told, message("p", "at your service", author=PIP, sent_at=at(4)))
    pip = await told.viewer("pip")
    await told.impersonate(pip).memories.remember(TEA, kind="fact", about=["ana"])
    await told.drain()
    asked = question(model, "captain beverage favours tipple")
    assert set(await candidates(told, asked)) == set(await candidates(told, asked, "pip")) == {TEA}
    assert await candidates(told, asked, "bo") == {}


@pytest.mark.slow
async def test_the_invisible_takes_no_place_among_the_nearest(told: App, model: Knowing):
    for number in range(memory_search.MAX_CANDIDATES + 5):
        await told.memories.remember(f"{TEA} {number}", sources=["r"])
    await told.memories.remember("captain beverage mild", sources=["a"])
    await told.drain()
    found = await candidates(told, question(model, "skipper drink prefers tea"), "bo")
    assert set(found) == {"captain beverage mild"}


@pytest.mark.slow
async def test_memory_restricted_by_a_privacy_request_is_not_found_by_vector(told: App, model: Knowing):
    await tell(
        told,
        message("w1", "my wolfram account is 4412-9981", author=ANA, sent_at=at(10)),
        message("w2", "please forget that", author=ANA, sent_at=at(11)),
    )
    async with told.db.read_transaction(told.operator) as conn:
        cursor = await conn.execute("select id from messages where external_id = 'w1'")
        [(source,)] = await cursor.fetchall()
    await told.memories.remember(TEA, sources=[str(source)])
    await told.drain()
    asked = question(model, "captain beverage favours")
    for name in (None, "ana", "bo"):
        assert await candidates(told, asked, name) == {}
        answer = await told.ask(told.operator if name is None else await told.viewer(name), asked.text)
        assert answer.memories == []


async def test_archived_memory_with_a_leftover_vector_is_not_found(told: App, model: Knowing, admin):
    known = await told.memories.remember(TEA, sources=["a"])
    await told.drain()
    asked = question(model, "captain beverage favours")
    rows = await admin.execute("select * from memory_embeddings where memory_id = %s", [known.id])
    left = await rows.fetchall()
    await told.memories.archive(str(known.id))
    await admin.cursor().executemany("insert into memory_embeddings values (%s, %s, %s, %s)", left)
    async with told.db.read_transaction(told.operator, apply_restrictions=True) as conn:
        assert await memory_search._candidates(conn, told.org_id, asked, vectors=[asked.vector]) == {}


# While models are switched


@pytest.mark.slow
async def test_during_a_switch_both_models_propose_and_the_current_one_compares(told: App, model: Knowing):
    new = told._model_cache.provided[SMALL]
    await told.memories.remember(TEA, sources=["a"])
    await told.drain()
    await told.embedding_versions.switch(SMALL)
    model.refused = "boat"
    await told.memories.remember("boat is dry", sources=["b"])
    await told.drain()
    # The switch has come, and back is under way: the model before lacks what it refused.
    await told.embedding_versions.back()
    both = SearchQuery(
        text="vessel",
        vector=(new.model_id, new.embed(["boat is dry"])[0]),
        second_vector=(model.model_id, model.embed(["skipper drink prefers tea"])[0]),
    )
    found = await candidates(told, both)
    assert found["boat is dry"] == pytest.approx(1.0, abs=1e-3)
    assert found[TEA] is not None
    assert found[TEA] < 0.5
