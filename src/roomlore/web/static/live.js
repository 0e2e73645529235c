// Updates a room's page: new messages are added at the end, changed ones are replaced. The page also works without it.
"use strict";
(() => {
  const list = document.getElementById("lines");
  const status = document.getElementById("newest");
  if (!list || !list.dataset.events || !status) return;
  const MOST = 100;
  const PAUSE = 1000;
  const lines = () => [...list.querySelectorAll(":scope > li.line")];
  const idOf = (line) => line.id.slice(2);
  const timeOf = (line) => line?.querySelector(".when time")?.dateTime ?? "";
  let added = 0;
  let older = 0;
  let changed = new Set();
  let all = false;
  let fresh = [];
  let timer = null;
  let busy = false;
  let isOut = false;
  let last = "";
  let source = null;
  let asked = 0;

  const fetched = async (ids) => {
    const address = new URL(list.dataset.lines, location.href);
    address.searchParams.set("ids", ids.join(","));
    const answer = await fetch(address, { headers: { accept: "text/html" }, redirect: "manual" });
    // A viewer whose key is no longer valid is told to sign in; the page keeps its content.
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) {
      isOut = true;
      close();
    }
    if (!answer.ok) throw new Error(String(answer.status));
    const made = document.createElement("template");
    made.innerHTML = await answer.text();
    return [...made.content.children];
  };

  const isInUse = (line) => line.contains(document.activeElement) || line.querySelector("details[open], input:checked");

  // A row depends on the one before it, so that one is fetched, too, and dropped.
  const put = (rows, first, isFirstOfAll) => {
    for (const row of rows) {
      if (!row.classList.contains("line")) continue;
      const day = row.previousElementSibling;
      const old = document.getElementById(row.id);
      if (old) {
        if ((row.id === first && !isFirstOfAll) || old.outerHTML === row.outerHTML) continue;
        // A removed text disappears even from a row in use.
        if (isInUse(old) && !row.querySelector(".gone")) continue;
        row.classList.toggle("sought", old.classList.contains("sought"));
        old.replaceWith(row);
      } else if (timeOf(row) < timeOf(lines().at(-1))) {
        older += 1;
      } else {
        if (day && day.classList.contains("day") && row.id !== first) list.append(day);
        list.append(row);
        added += 1;
      }
    }
  };

  const gone = (asked, rows) => {
    const kept = new Set(rows.map((row) => row.id));
    for (const id of asked) {
      const old = document.getElementById(`m-${id}`);
      if (old && !kept.has(old.id)) old.remove();
    }
  };

  const refresh = async () => {
    timer = null;
    if (busy || isOut) return;
    busy = true;
    asked = Date.now();
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
    try {
      const here = lines().map(idOf);
      const news = fresh.filter((id) => !here.includes(id));
      const isStale = all || here.some((id) => changed.has(id));
      fresh = [];
      changed = new Set();
      all = false;
      if (isStale) {
        const shown = here.slice(-MOST);
        const rows = await fetched(shown);
        gone(shown, rows);
        put(rows, `m-${shown[0]}`, shown[0] === here[0]);
      }
      for (let place = 0; place < news.length; place += MOST) {
        const last = lines().map(idOf).slice(-1);
        const rows = await fetched([...last, ...news.slice(place, place + MOST)]);
        put(rows, `m-${last[0]}`, false);
      }
      if (older) status.textContent = `${older} older message${older === 1 ? "" : "s"} came in. Load the page again to see ${older === 1 ? "it" : "them"}.`;
      if (added) {
        status.textContent = `${added} new message${added === 1 ? "" : "s"} since you opened this page.`;
        document.querySelector(".nothing")?.remove();
        if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
      }
    } catch {
      status.textContent = isOut
        ? "You are signed out. Load the page again to sign in."
        : "What is new could not be fetched. Load the page again to see it.";
    } finally {
      busy = false;
      if (isOut) return;
      if (fresh.length || changed.size || all) soon();
    }
  };

  // Events within a second share one fetch.
  const soon = () => {
    timer ??= setTimeout(refresh, Math.max(150, asked + PAUSE - Date.now()));
  };

  const close = () => {
    source?.close();
    source = null;
    delete list.dataset.live;
  };

  const listen = () => {
    if (source || isOut || document.hidden) return;
    const address = new URL(list.dataset.events, location.href);
    if (last) address.searchParams.set("after", last);
    source = new EventSource(address);
    const on = (kind, told) =>
      source.addEventListener(kind, (event) => {
        last = event.lastEventId || last;
        told(JSON.parse(event.data).subjects);
        soon();
      });
    on("message.added", (subjects) => fresh.push(...subjects));
    for (const kind of ["message.revised", "message.redacted", "message.erased"]) {
      on(kind, (subjects) => {
        for (const id of subjects) changed.add(id);
      });
    }
    for (const kind of ["memory.added", "memory.changed", "conversation.changed"]) {
      on(kind, () => {
        all = true;
      });
    }
    source.addEventListener("open", () => {
      list.dataset.live = "open";
    });
    source.addEventListener("error", () => {
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      status.textContent = "What is said from now on is not shown. Load the page again.";
    });
  };

  // A hidden tab closes its stream; when it is shown again, it catches up.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : listen()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", listen);
  listen();
})();
