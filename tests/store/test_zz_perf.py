import time, random, statistics
from datetime import UTC, datetime, timedelta
from ingest.stories import author, message, room
from roomlore.domain.incoming import IncomingMembership

W = [f"word{i}" for i in range(400)]


async def test_perf(open_app, admin):
    app = await open_app("perf")
    rnd = random.Random(1)
    people = [author(f"p{i}") for i in range(40)] + [author("bot", kind="agent")]
    start = datetime.now(UTC) - timedelta(days=20)
    rooms = []
    for n in range(30):
        mem = rnd.sample(people[:-1], 12) + [people[-1]]
        rooms.append(
            (
                room(
                    f"r{n}",
                    visibility="members" if n % 2 else "open",
                    members=tuple(IncomingMembership(author=m) for m in mem),
                ),
                mem,
            )
        )
    batch = []
    for k in range(8000):
        r, mem = rnd.choice(rooms)
        batch.append(
            message(
                f"m{k}",
                " ".join(rnd.choices(W, k=12)),
                author=rnd.choice(mem),
                room=r,
                sent_at=start + timedelta(minutes=k),
            )
        )
    for i in range(0, len(batch), 1000):
        await app.ingest_batch(batch[i : i + 1000])
    await app.drain()
    for k in range(0, 400, 2):
        await app.memories.remember(f"fact {k} " + batch[k].body[:40], sources=[f"m{k}", f"m{k + 1}"])
    await admin.execute("analyze")
    bot = await app.viewer("bot")
    rid = {
        e: i
        for e, i in await (
            await admin.execute("select external_id, id from rooms where org_id=%s", [app.org_id])
        ).fetchall()
    }
    f = open("/tmp/w1_perf.txt", "w")

    async def timed(name, call, n=12):
        t = []
        for _ in range(n):
            a = time.perf_counter()
            await call()
            t.append((time.perf_counter() - a) * 1000)
        print(f"{name:40} {statistics.median(t[2:]):8.1f} ms", file=f, flush=True)

    for r in ("r0", "r1"):
        for private in (True, False):
            tag = f"{r} {'private' if private else 'bound'}"
            await timed("context " + tag, lambda: app.context(bot, r, private=private))
            await timed(
                "search  " + tag, lambda: app.search(bot, "word1 word2 word7", room=r, private=private)
            )
            await timed("ask     " + tag, lambda: app.ask(bot, "word1 word2 word7", room=r, private=private))
            await timed(
                "op ask  " + tag, lambda: app.ask(app.operator, "word1 word2 word7", room=r, private=private)
            )
    for place in (None, rid["r0"], rid["r1"]):
        v = bot if place is None else bot.posting(place)
        async with app.db.reading(v, recalls=True) as conn:
            for q in (
                "select count(*) from messages",
                "select count(*) from memories",
                "select count(*) from best_worded('word1 word2 word7', null, false, 40)",
                "select count(*) from nearest_exact(array_fill(1, array[384])::vector::halfvec, (select model from message_embeddings limit 1), null, 20)",
                "select count(*) from worded_memories('word1 word2 word7', 10)",
            ):
                t = []
                for _ in range(6):
                    a = time.perf_counter()
                    row = await (await conn.execute(q)).fetchone()
                    t.append((time.perf_counter() - a) * 1000)
                print(place, q[:50], row, f"{statistics.median(t):.1f} ms", file=f, flush=True)
