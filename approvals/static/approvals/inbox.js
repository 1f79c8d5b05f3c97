/* The inbox: opening requests beside the list, going on to the next one, and ticking rows. Rows are links and everything
   else is a form, so that without this file each of them is a page. What was done, and undoing it, is in done.js. */
(() => {
  "use strict";

  const inbox = document.querySelector("[data-inbox]");
  const one = document.querySelector("[data-one]");
  const page = inbox ?? one;
  if (!page) return;

  const words = document.getElementById("words").dataset;
  const list = document.getElementById("rows");
  const wide = matchMedia("(min-width: 60.001rem)");
  const headers = { "HX-Request": "true" };
  const $ = (selector, within = document) => within.querySelector(selector);
  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(`holdpoint:${name}`, { detail }));

  function say(text) {
    const region = document.getElementById("say");
    // The same sentence twice is news, too.
    region.textContent = region.textContent === text ? `${text}\u00a0` : text;
  }

  function copy(id) {
    return document.getElementById(id).content.firstElementChild.cloneNode(true);
  }

  function readParts(html) {
    return new DOMParser().parseFromString(html, "text/html");
  }

  const detail = () => document.getElementById("detail");

  /* ---- Rows ---- */
  const findRows = () => [...(list?.querySelectorAll(".request[data-id]") ?? [])].filter((row) => !row.closest("details:not([open])"));
  const findRow = (id) => list?.querySelector(`.request[data-id="${CSS.escape(id)}"]`);
  const linkOf = (row) => $(".request-link", row);
  let current = null;
  let lastAt = 0;

  function mark(id) {
    current = id;
    for (const link of list.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
    const row = id && findRow(id);
    if (!row) return;
    linkOf(row).setAttribute("aria-current", "true");
    lastAt = findRows().indexOf(row);
    row.scrollIntoView({ block: "nearest" });
    showPosition();
  }

  function showPosition() {
    const place = $("[data-position]", detail());
    // Those in a closed group count; how many came before this page of the list, nobody has counted.
    const open = [...list.querySelectorAll(".request[data-id]")].filter((row) => row.dataset.status === "open" || row.dataset.id === current);
    const at = new URLSearchParams(location.search).has("after") ? 0 : open.findIndex((row) => row.dataset.id === current) + 1;
    const all = document.getElementById("count").textContent || open.length;
    if (place) place.textContent = at ? words.position.replace("{n}", at).replace("{all}", all) : "";
  }

  /** The row that is `by` steps away; of those that still wait, if anything was decided. */
  function step(by, from = current) {
    const rows = findRows();
    const found = rows.findIndex((row) => row.dataset.id === from);
    // Where it has left the list, what took its place comes next.
    const at = found >= 0 ? found : by > 0 ? lastAt - 1 : lastAt;
    for (let next = at + by; next >= 0 && next < rows.length; next += by) {
      if (rows[next].dataset.status === "open") return rows[next];
    }
    return null;
  }

  /* ---- The pane ---- */
  let loading = null;
  let soon = 0;

  /** From now on the pane is for this one: what is on its way for another comes too late, and no key and no click may
      decide what still stands there. */
  function turnTo(id) {
    clearTimeout(soon);
    loading?.abort();
    detail().inert = true;
    mark(id);
  }

  function place(html) {
    const next = readParts(html).getElementById("detail");
    if (!next) return false;
    detail().replaceWith(document.adoptNode(next));
    window.htmx?.process(next);
    showPosition();
    tell("placed");
    return true;
  }

  async function load(url, { title = "", focus = false, worked = null } = {}) {
    loading?.abort();
    const mine = (loading = new AbortController());
    detail().inert = true;
    const slow = setTimeout(() => showWaiting(title), 150);
    try {
      const answer = await fetch(url, { headers, signal: mine.signal });
      const html = await answer.text();
      if (mine.signal.aborted) return;
      clearTimeout(slow);
      if (answer.status === 401) return showUnread(title, html);
      if (answer.status >= 500 || !place(html)) return showUnread(title, answer.redirected ? words.loggedOut : "");
      if (worked) goBackTo(worked);
      else if (focus) detail().focus({ preventScroll: true });
    } catch {
      if (!mine.signal.aborted) showUnread(title);
    } finally {
      clearTimeout(slow);
    }
  }

  function showWaiting(title) {
    const waiting = copy("waiting");
    $("[data-title]", waiting).textContent = title || words.loading;
    detail().replaceChildren(waiting);
    delete detail().dataset.id;
  }

  function showUnread(title, text = "") {
    showWaiting(title);
    $(".section", detail()).remove();
    $(".card-kind", detail()).remove();
    detail().inert = false;
    fail(text, "unread");
  }

  function open(row, { focus = false, later = 0 } = {}) {
    const link = linkOf(row);
    // Whoever comes back finds the place again.
    history.replaceState(null, "", `#${row.dataset.id}`);
    if (!wide.matches) return location.assign(link.href);
    turnTo(row.dataset.id);
    const title = $(".request-title bdi", row)?.textContent;
    // A key that is held down passes rows by without asking for them.
    soon = setTimeout(() => load(link.href, { title, focus }), later);
  }

  /** Nothing typed is lost: the pane stays, and says that it may not have arrived. */
  function fail(text = "", kind = "failed") {
    const where = $(".detail-scroll", page) ?? $(".page", page) ?? detail();
    if (!where) return;
    $("[data-failed]", where)?.remove();
    const banner = copy(kind);
    if (text && text.length < 300) $("[data-text]", banner).textContent = text;
    banner.tabIndex = -1;
    where.prepend(banner);
    banner.focus();
  }

  document.addEventListener("holdpoint:move", ({ detail: { by } }) => {
    if (!inbox) {
      const url = by > 0 ? one.dataset.next : one.dataset.previous;
      if (!one.dataset.next && !one.dataset.previous) return;
      return url ? location.assign(url) : say(by > 0 ? words.end : words.begin);
    }
    // Where there is no pane beside the list, one moves in the list, and Enter opens.
    const from = wide.matches ? current : document.activeElement.closest?.(".request[data-id]")?.dataset.id ?? current;
    const row = step(by, from);
    if (!row) return say(by > 0 ? words.end : words.begin);
    linkOf(row).focus({ preventScroll: wide.matches });
    if (wide.matches) open(row, { later: 90 });
  });

  document.addEventListener("click", (event) => {
    const move = event.target.closest("[data-move]");
    if (move) {
      const row = step(Number(move.dataset.move));
      return row ? open(row, { focus: true }) : say(move.dataset.move > 0 ? words.end : words.begin);
    }
    if (event.target.closest("[data-reload]")) return reload();
    if (event.target.closest("[data-again]")) return findRow(current) && open(findRow(current), { focus: true });
    const id = event.target.closest("[data-lost]")?.dataset.lost;
    const row = id ? findRow(id) : event.target.closest(".request-link")?.closest(".request[data-id]");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    // Enter on a row means to read it; a click may just as well be followed by j and k.
    open(row, { focus: event.detail === 0 });
  });

  function reload() {
    // What was posted last is not posted again.
    if (!inbox) return location.replace(one.getAttribute("action"));
    const row = findRow(current);
    // Another one, or a newer state of this one, is on its way already.
    if (detail().inert || detail().dataset.id !== current) return;
    // Its row may have left the list: it is still what is being read.
    const url = row ? linkOf(row).href : $("form", detail()).action;
    load(url, { worked: rememberPlace() });
  }

  /* ---- Where one works in the pane, to be there again once it is drawn anew ---- */
  function rememberPlace() {
    const at = document.activeElement;
    const scroll = $(".detail-scroll", detail())?.scrollTop ?? 0;
    if (!detail().contains(at)) return { scroll, isElsewhere: true };
    const value = at.hasAttribute("value") ? `[value="${CSS.escape(at.value)}"]` : "";
    const where = at.id ? `#${CSS.escape(at.id)}` : at.name ? `[name="${CSS.escape(at.name)}"]${value}` : null;
    return { scroll, where, caret: at.matches("textarea") ? [at.selectionStart, at.selectionEnd] : null };
  }

  function goBackTo({ scroll, where, caret, isElsewhere }) {
    const pane = detail();
    if ($(".detail-scroll", pane)) $(".detail-scroll", pane).scrollTop = scroll;
    if (isElsewhere) return;
    let found = where && $(where, pane);
    // Out of a field whose words were sent, so that keys work again: to what sent them.
    if (caret && found?.value === "") found = document.getElementById(found.dataset.sends) ?? found;
    (found?.closest("details:not([open])")?.querySelector("summary") ?? found)?.focus({ preventScroll: true });
    if (caret && found?.value) found.setSelectionRange?.(...caret);
    if (!pane.contains(document.activeElement)) pane.focus({ preventScroll: true });
  }

  /* ---- Something was sent: go on, or stay where one was ---- */
  let movesOn = false;
  let worked = null;

  document.addEventListener("holdpoint:done", (event) => {
    if (!inbox) return;
    movesOn = event.detail.left;
    tell("ask");
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "detail") return;
    const goesOn = movesOn;
    movesOn = false;
    const { xhr, requestConfig, shouldSwap } = event.detail;
    if (!shouldSwap) return;
    worked = rememberPlace();
    event.detail.shouldSwap = false;
    // Another one has been opened meanwhile.
    if (detail().inert) return;
    // A page that is not ours asks to log in, mostly.
    if (!readParts(xhr.responseText).getElementById("detail")) return fail(xhr.responseURL === requestConfig.elt.action ? "" : words.loggedOut);
    const next = goesOn && (step(1) ?? step(-1));
    if (!next || next.dataset.id === current) return (event.detail.shouldSwap = true);
    const isInList = list.contains(document.activeElement);
    if (isInList) linkOf(next).focus({ preventScroll: true });
    open(next, { focus: !isInList });
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    if (!inbox || event.detail.target?.id !== "detail") return;
    const answered = detail();
    showPosition();
    const wrong = $("[autofocus], .form-summary, [aria-invalid]", answered) ?? $(".banner:not(.banner-good)", answered);
    if (!wrong) {
      goBackTo(worked);
      return document.activeElement === document.body && answered.focus({ preventScroll: true });
    }
    if (wrong.matches(".banner, .form-summary")) wrong.tabIndex = -1;
    wrong.focus();
    if (wrong.matches(".banner")) $(".detail-scroll", answered).scrollTop = 0;
  });
  document.addEventListener("htmx:sendError", () => detail()?.inert || fail());
  document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => detail()?.inert || fail(xhr.status === 401 ? xhr.responseText : ""));

  /* ---- Undone (done.js): the pane turns to it at once, and shows it when the answer comes ---- */
  let before = null;

  document.addEventListener("holdpoint:undoing", ({ detail: { id } }) => {
    before = detail().inert ? null : current;
    turnTo(id);
  });

  document.addEventListener("holdpoint:undone", ({ detail: { id, url, html } }) => {
    if (id !== current) return;
    if (html && place(html)) {
      history.replaceState(null, "", `#${id}`);
      return detail().focus({ preventScroll: true });
    }
    if (before === null) return load(url);
    // What was there stays there, with what is typed in it.
    mark(before);
    detail().inert = false;
    fail();
  });

  /* ---- Ticked rows ---- */
  const picks = document.getElementById("picks");
  const findTicks = () => [...(list?.querySelectorAll(".request-pick input") ?? [])];
  let lastTick = null;

  function showPicks() {
    const count = findTicks().filter((tick) => tick.checked).length;
    const text = document.getElementById("picked");
    text.textContent = count === 1 ? text.dataset.single : text.dataset.many.replace("{n}", count);
  }

  function pick(tick, isRange) {
    const ticks = findTicks().filter((one) => !one.closest("details:not([open])"));
    const [from, to] = [ticks.indexOf(lastTick), ticks.indexOf(tick)].sort((a, b) => a - b);
    if (isRange && from >= 0) for (const one of ticks.slice(from, to + 1)) one.checked = tick.checked;
    lastTick = tick;
    showPicks();
  }

  list?.addEventListener("click", (event) => {
    if (event.target.matches(".request-pick input")) pick(event.target, event.shiftKey);
  });
  picks?.addEventListener("reset", () => setTimeout(showPicks));
  document.addEventListener("holdpoint:pick", ({ detail: { isRange } }) => {
    const row = document.activeElement.closest?.(".request[data-id]") ?? (current && findRow(current));
    const tick = row && $(".request-pick input", row);
    if (!tick) return;
    tick.checked = isRange || !tick.checked;
    pick(tick, isRange);
  });
  document.addEventListener("holdpoint:escape", (event) => {
    if (!findTicks().some((tick) => tick.checked)) return;
    event.preventDefault();
    picks.reset();
  });

  // A request on its own page takes its neighbours from here.
  addEventListener("pagehide", () => {
    if (!inbox) return;
    const order = findRows().filter((row) => row.dataset.status === "open");
    try {
      sessionStorage.setItem(`holdpoint:order:${words.person}`, JSON.stringify(order.map((row) => linkOf(row).getAttribute("href"))));
    } catch {
      // Then it is a page without neighbours.
    }
  });

  /* ---- Begin ---- */
  document.addEventListener("holdpoint:say", ({ detail: { text } }) => say(text));
  document.addEventListener("holdpoint:reload", reload);
  document.addEventListener("holdpoint:listed", () => {
    $(".shell-main", page).classList.toggle("shell-main-wide", Boolean($("[data-empty]", list)) && !current);
    showPosition();
    showPicks();
  });
  const asked = location.hash.slice(1);
  if (inbox && asked && findRow(asked)) {
    if (wide.matches) open(findRow(asked));
    else current = asked;
  }
})();
