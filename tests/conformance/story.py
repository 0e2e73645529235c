"""The village with something of everything that an operation can name."""

from client.conftest import disentangled
from ingest.stories import at, author
from operations.village import ANA, SQUARE, say
from roomlore.operations import App

DEE_HOME = author("dee_home")


async def everything(app: App) -> dict[str, str]:
    """Tell the story to an org, and return ids of what is in it by the names that calls use."""
    await disentangled(app)
    await app.ingest_batch(
        [
            say(20, ANA, SQUARE, body="My locker code is 4711."),
            say(21, ANA, SQUARE, body="Please forget that.", reply_to="m20"),
            say(24, ANA, SQUARE, body="The code of the shed is 4-4-1-7."),
            say(25, ANA, SQUARE, body="oh dear, me and my mouth. Please forget what I said.", reply_to="m24"),
            say(22, DEE_HOME, SQUARE, body="I am Dee, too."),
            say(30, DEE_HOME, SQUARE, body="To be erased."),
        ]
    )
    await app.drain()
    await app.people.merge("dee", "dee_home")
    apart = await app.conversations.split(["m2"], "apart", room="square")
    kept = await app.memories.remember(
        "The stairs of word4 are steep.", sources=["m4"], about=["ana"], tags=["attic"]
    )
    gone = await app.memories.remember("Bo likes ladders.", sources=["m5"], about=["bo"], tags=["food"])
    await app.memories.archive(str(gone.id))
    pip = app.impersonate(await app.viewer("pip"))
    insight = await pip.memories.remember(
        "Bo likes stairs.", kind="insight", sources=["m1"], about=["bo"], tags=["food"], task="bake"
    )
    receipt = await app.erasure.range("square", since=at(30))
    wishes = {one.status: one for one in await app.privacy_requests.all(app.operator)}
    secret = {one.external_id: one.id for one in await app.messages(app.operator, "square")}["m20"]
    found = {"apart": apart, "kept": kept, "gone": gone, "insight": insight, "receipt": receipt}
    found |= {"wish": wishes["active"], "proposed": wishes["proposed"]}
    return {name: str(one.id) for name, one in found.items()} | {"secret": str(secret)}
