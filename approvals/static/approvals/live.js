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
      open and what is ticked stay too. What has no place any more is added to `left`. */
  function reconcile(here, there, left) {
    const known = new Map([...list.querySelectorAll("[data-id], [data-key]")].map((item) => [keyOf(item), item]));
    let last = null;
    const findNext = () => (last ? last.nextElementSibling : here.firstElementChild);
    for (const next of [...there.children]) {
      const key = keyOf(next);
      const same = key && known.get(key)?.tagName === next.tagName ? known.get(key) : null;
      if (same) {
        left.delete(same);
        if (same !== findNext()) move(same, here, findNext());
        update(same, next, left);
      } else {
        insert(next, here, findNext(), left);
      }
      last = same ?? next;
    }
    // Not removed before everything has its place: rows of it may go elsewhere.
    for (let gone = findNext(); gone; gone = gone.nextElementSibling) left.add(gone);
  }

  /** A section or a group that is new comes empty, and takes the rows that are known already to itself. */
  function insert(next, here, at, left) {
    const there = $("ul", next)?.cloneNode(true);
    if (there) $("ul", next).replaceChildren();
    here.insertBefore(document.adoptNode(next), at);
    if (next.dataset.id) sources.set(next, next.innerHTML);
    if (there) reconcile($("ul", next), there, left);
  }

  function move(row, here, at) {
    const isHeld = row.contains(document.activeElement) || $("[aria-current], :checked", row);
    const group = here.closest("details");
    if (isHeld && group && row.parentElement !== here) group.open = true;
    if (here.moveBefore && row.isConnected) here.moveBefore(row, at);
    else here.insertBefore(row, at);
  }

  function update(item, next, left) {
    if (item.dataset.id) return refresh(item, next);
    const [here, there] = [$("ul", item), $("ul", next)];
    if (!here || !there) return item.replaceChildren(...next.childNodes);
    for (const part of [":scope > h2", ":scope > details > summary", ":scope > details > .group-more"]) {
      const [old, fresh] = [$(part, item), $(part, next)];
      if (old && fresh && old.innerHTML !== fresh.innerHTML) old.innerHTML = fresh.innerHTML;
    }
    reconcile(here, there, left);
  }

  function show(parts) {
    const rows = $('[data-part="rows"]', parts);
    if (rows && list) {
      const focused = document.activeElement;
      const left = new Set();
      reconcile(list, rows, left);
      for (const gone of left) gone.remove();
      // Where an element cannot be moved as it is, the focus gets lost on the way.
      if (document.activeElement !== focused && list.contains(focused)) focused.focus({ preventScroll: true });
    }
    showRail($('[data-part="rail"]', parts));
    const count = $('[data-part="count"]', parts)?.textContent.trim() ?? "";
    const counted = document.getElementById("count");
    if (counted && counted.textContent !== count) {
      const old = counted.textContent && `${counted.textContent} · `;
      const title = document.title.startsWith(old) ? document.title.slice(old.length) : document.title;
      document.title = count ? `${count} · ${title}` : title;
      counted.textContent = count;
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
    // What is on its way brings the news along.
    if (card.inert || $("[data-changed], [data-failed], [aria-busy=true]", card)) return;
    const isOwn = card.dataset.status === "grace" && part.dataset.status === "over" && $("[data-undo-until]", card);
    if (isOwn) return settle(card);
    const isOpened = card.hasAttribute("data-typed") || $("details[open]", card);
    if (inbox && !isOpened && !card.contains(document.activeElement)) return tell("reload");
    const banner = copy("changed");
    const row = list?.querySelector(`.request-decided[data-id="${CSS.escape(card.dataset.id)}"]`);
    if (row) $("[data-who]", banner).textContent = $(".request-meta", row).textContent;
    ($(".detail-scroll", card) ?? $(".page", card)).prepend(banner);
    tell("say", { text: [...banner.querySelectorAll("h2, p")].map((one) => one.textContent).join(" ") });
  }

  /** What one decided oneself has taken effect: that is no news to be warned of. */
  async function settle(card) {
    const isTouched = card.hasAttribute("data-typed") || $("details[open]", card);
    const isTyping = document.activeElement.matches("textarea, input, select") && card.contains(document.activeElement);
    if (inbox && !isTouched && !isTyping) return tell("reload");
    const form = card.matches("form") ? card : $("form", card);
    const answer = await fetch(form.getAttribute("action"), { headers: inbox ? headers : {} }).catch(() => null);
    const next = answer?.ok && readParts(await answer.text()).querySelector(`[data-id="${CSS.escape(card.dataset.id)}"]`);
    if (!next || !card.isConnected) return;
    for (const name of ["status", "version", "said"]) card.dataset[name] = next.dataset[name];
    const banner = $(".banner", next);
    if (banner && !banner.matches(".banner-good")) tell("say", { text: banner.textContent.trim() });
    $("[data-undo-until]", card)?.replaceWith(banner ?? "");
    if (!isTouched && !isTyping) $(".card", card).replaceWith($(".card", next));
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

  /** As long as it is under way the page is marked so; without the mark, the time of the next one is set. */
  async function poll() {
    clearTimeout(waiting);
    asking?.abort();
    const mine = (asking = new AbortController());
    page.dataset.asking = "";
    const stop = setTimeout(() => mine.abort("slow"), 15000);
    try {
      const url = new URL(page.dataset.live, location.href);
      const asked = new URLSearchParams(page.dataset.query);
      asked.set("shown", listShown());
      asked.set("open", (inbox ? document.getElementById("detail") : one)?.dataset.id ?? "");
      asked.set("stamp", stamp);
      url.search = asked;
      const answer = await fetch(url, { headers, signal: mine.signal, cache: "no-store" });
      const html = await answer.text();
      const parts = answer.status === 200 ? readParts(html).getElementById("live") : null;
      if (answer.status === 401 || (answer.redirected && !parts)) return showEnd(answer.status === 401 ? html : words.loggedOut);
      if (!parts && answer.status !== 204) throw new Error(answer.status);
      stamp = parts?.dataset.stamp ?? stamp;
      if (parts) show(parts);
      showState(true);
    } catch {
      if (mine !== asking) return; // another question has taken its place
      showState(false);
    } finally {
      clearTimeout(stop);
      if (mine === asking) delete page.dataset.asking;
    }
    if (mine === asking) waiting = setTimeout(poll, document.hidden ? SLOWEST : Math.min(SLOWEST, EVERY * 2 ** failed));
  }

  function showState(isLive) {
    if (isLive && failed > 1) tell("say", { text: words.onlineSaid });
    if (!isLive && failed === 1) tell("say", { text: words.offlineSaid });
    failed = isLive ? 0 : failed + 1;
    label(failed > 1 ? words.offline : words.live, failed > 1);
  }

  function label(text, isOff) {
    const state = document.getElementById("live-state");
    state.hidden = false;
    state.textContent = text;
    state.classList.toggle("live-off", isOff);
  }

  /** Whoever is logged out hears nothing by waiting: it is asked again when they come back to the page. */
  function showEnd(text) {
    if (failed !== Infinity) tell("say", { text });
    failed = Infinity;
    label(words.ended, true);
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
