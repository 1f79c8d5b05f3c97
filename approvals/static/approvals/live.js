/* News: what has come, gone or changed since the page was drawn, asked for every few seconds while it is looked at. The
   server sends the list as it is now, and what is the same stays the same element: nothing under a hand moves by itself. */
(() => {
  "use strict";

  const inbox = document.querySelector("[data-inbox]");
  const one = document.querySelector("[data-one]");
  const page = inbox ?? one;
  if (!page?.dataset.live) return;

  const EVERY = 5000;
  const SLOWEST = 60000;
  const words = document.getElementById("words").dataset;
  const list = document.getElementById("rows");
  const headers = { "HX-Request": "true" };
  const $ = (selector, within = document) => within.querySelector(selector);
  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(`holdpoint:${name}`, { detail }));
  const linkOf = (row) => $(".request-link", row);
  const readParts = (html) => new DOMParser().parseFromString(html, "text/html");
  const copy = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

  const sources = new WeakMap();
  const shownSince = new Map();
  const keyOf = (item) => item.dataset.id ?? item.dataset.key;
  let stamp = page.dataset.stamp ?? "";
  let lastNews = "";

  /** As the server wrote it, before anybody ticked or opened anything. */
  function remember(within) {
    for (const row of within.querySelectorAll("[data-id]")) sources.set(row, row.innerHTML);
  }

  function refresh(row, next) {
    if (sources.get(row) === next.innerHTML && row.className === next.className) return;
    sources.set(row, next.innerHTML);
    const wasTicked = $(".request-pick input", row)?.checked;
    const had = row.contains(document.activeElement);
    const wasCurrent = linkOf(row).hasAttribute("aria-current");
    row.className = next.className;
    row.dataset.status = next.dataset.status;
    row.replaceChildren(...next.childNodes);
    if (wasTicked && $(".request-pick input", row)) $(".request-pick input", row).checked = true;
    if (wasCurrent) linkOf(row).setAttribute("aria-current", "true");
    if (had) linkOf(row).focus({ preventScroll: true });
  }

  /** Make the children of `here` those of `there`: what is the same stays the same element, so that the focus, what is
      open and what is ticked stay too. */
  function reconcile(here, there) {
    const known = new Map([...list.querySelectorAll("[data-id], [data-key]")].map((item) => [keyOf(item), item]));
    let at = here.firstElementChild;
    for (const next of [...there.children]) {
      const key = keyOf(next);
      const same = key && known.get(key)?.tagName === next.tagName ? known.get(key) : null;
      if (!same) {
        here.insertBefore(document.adoptNode(next), at);
        remember(here);
        continue;
      }
      if (same === at) at = at.nextElementSibling;
      else if (here.moveBefore && same.isConnected) here.moveBefore(same, at);
      else here.insertBefore(same, at);
      update(same, next);
    }
    while (at) {
      const gone = at;
      at = at.nextElementSibling;
      gone.remove();
    }
  }

  function update(item, next) {
    if (item.dataset.id) return refresh(item, next);
    const [here, there] = [$("ul", item), $("ul", next)];
    if (!here || !there) return item.replaceChildren(...next.childNodes);
    for (const part of [":scope > h2", ":scope > details > summary", ":scope > details > .group-more"]) {
      const [old, fresh] = [$(part, item), $(part, next)];
      if (old && fresh && old.innerHTML !== fresh.innerHTML) old.innerHTML = fresh.innerHTML;
    }
    reconcile(here, there);
  }

  function show(parts) {
    const rows = $('[data-part="rows"]', parts);
    if (rows && list) {
      const focused = document.activeElement;
      reconcile(list, rows);
      // Where an element cannot be moved as it is, the focus gets lost on the way.
      if (document.activeElement !== focused && list.contains(focused)) focused.focus({ preventScroll: true });
    }
    showRail($('[data-part="rail"]', parts));
    const count = $('[data-part="count"]', parts)?.textContent.trim() ?? "";
    const counted = document.getElementById("count");
    if (counted && counted.textContent !== count) {
      counted.textContent = count;
      const title = document.title.split(" · ").slice(-2);
      document.title = [count, ...title].filter(Boolean).join(" · ");
    }
    if (list) tell("listed");
    const news = $('[data-part="announcement"]', parts)?.textContent.trim();
    if (news && news !== lastNews) tell("say", { text: news });
    lastNews = news;
    showOpen($('[data-part="open"]', parts));
  }

  function showRail(part) {
    const rail = document.getElementById("rail");
    if (!rail || !part || rail.innerHTML.trim() === part.innerHTML.trim()) return;
    const href = rail.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    rail.replaceChildren(...part.childNodes);
    if (href) rail.querySelector(`[href="${CSS.escape(href)}"]`)?.focus();
  }

  /** The request that is open: who looks, and whether it is still the one that was opened. */
  function showOpen(part) {
    const card = inbox ? document.getElementById("detail") : one;
    if (!part || card?.dataset.id !== part.dataset.id) return;
    const looking = $("[data-looking]", card);
    if (looking && looking.outerHTML !== part.innerHTML.trim()) looking.replaceWith(...part.children);
    const status = { decided: "over", closed: "over" }[card.dataset.status] ?? card.dataset.status;
    const isSame = card.dataset.version === part.dataset.version && status === part.dataset.status;
    // Once it is over, comments of others are no reason to ask for another look.
    if (isSame && (status === "over" || card.dataset.said === part.dataset.said)) return;
    if ($("[data-changed]", card) || $("[data-failed]", card)) return;
    const isIdle = !card.contains(document.activeElement) && !sessionStorage.getItem(`holdpoint:draft:${card.dataset.id}`);
    if (inbox && isIdle) return tell("reload");
    const banner = copy("changed");
    const row = list?.querySelector(`.request-decided[data-id="${CSS.escape(card.dataset.id)}"]`);
    if (row) $("[data-who]", banner).textContent = $(".request-meta", row).textContent;
    ($(".detail-scroll", card) ?? $(".page", card)).prepend(banner);
    tell("say", { text: [...banner.querySelectorAll("h2, p")].map((one) => one.textContent).join(" ") });
  }

  /** Rows that were decided stay a while, to be seen, and then are no longer asked for. */
  function listShown() {
    const now = Date.now();
    const ids = [...(list?.querySelectorAll(".request[data-id]") ?? [])].filter((row) => {
      if (row.dataset.status === "open") return true;
      if (!shownSince.has(row.dataset.id)) shownSince.set(row.dataset.id, now);
      return linkOf(row).hasAttribute("aria-current") || now - shownSince.get(row.dataset.id) < 30000;
    });
    return ids.map((row) => row.dataset.id).join();
  }

  let failed = 0;
  let waiting = 0;
  let asking = null;

  async function poll() {
    clearTimeout(waiting);
    asking?.abort();
    const mine = (asking = new AbortController());
    const stop = setTimeout(() => mine.abort("slow"), 15000);
    try {
      const url = new URL(page.dataset.live, location.href);
      const asked = new URLSearchParams(page.dataset.query);
      asked.set("shown", listShown());
      asked.set("open", (inbox ? document.getElementById("detail") : one)?.dataset.id ?? "");
      asked.set("stamp", stamp);
      url.search = asked;
      const answer = await fetch(url, { headers, signal: mine.signal, cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      if (answer.status === 200) {
        const parts = readParts(await answer.text()).getElementById("live");
        stamp = parts?.dataset.stamp ?? stamp;
        if (parts) show(parts);
      }
      showState(true);
    } catch {
      if (mine !== asking) return; // another question has taken its place
      showState(false);
    } finally {
      clearTimeout(stop);
    }
    if (mine === asking) waiting = setTimeout(poll, document.hidden ? SLOWEST : Math.min(SLOWEST, EVERY * 2 ** failed));
  }

  function showState(isLive) {
    const state = document.getElementById("live-state");
    if (isLive && failed > 1) tell("say", { text: words.onlineSaid });
    if (!isLive && failed === 1) tell("say", { text: words.offlineSaid });
    failed = isLive ? 0 : failed + 1;
    if (!state) return;
    state.hidden = false;
    state.textContent = failed > 1 ? words.offline : words.live;
    state.classList.toggle("live-off", failed > 1);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(waiting);
    else poll();
  });
  addEventListener("online", poll);

  document.addEventListener("holdpoint:ask", poll);
  if (list) remember(list);
  waiting = setTimeout(poll, EVERY);
})();
