/* The inbox: opening requests beside the list, going on to the next one, undo, and ticking rows. Rows are links and
   everything else is a form, so that without this file each of them is a page. */
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
    const open = findRows().filter((row) => row.dataset.status === "open" || row.dataset.id === current);
    const at = open.findIndex((row) => row.dataset.id === current) + 1;
    const all = document.getElementById("count").textContent || open.length;
    if (place && at) place.textContent = words.position.replace("{n}", at).replace("{all}", all);
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

  function place(html) {
    const next = readParts(html).getElementById("detail");
    if (!next) return fail();
    const before = detail();
    const adopted = document.adoptNode(next);
    before.replaceWith(adopted);
    window.htmx?.process(adopted);
    showPosition();
    tell("placed");
  }

  async function load(url, { title = "", focus = false, scroll = 0 } = {}) {
    loading?.abort();
    const mine = (loading = new AbortController());
    // What is still there belongs to another row: no key and no click may decide it any more.
    detail().inert = true;
    const slow = setTimeout(() => showWaiting(title), 150);
    try {
      const answer = await fetch(url, { headers, signal: mine.signal });
      const html = await answer.text();
      if (mine.signal.aborted) return;
      clearTimeout(slow);
      if (answer.status === 401 || answer.status >= 500) return showUnread(title, answer.status === 401 ? html : "");
      place(html);
      const pane = $(".detail-scroll", detail());
      if (pane) pane.scrollTop = scroll;
      if (focus) detail().focus({ preventScroll: true });
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

  let soon = 0;

  function open(row, { focus = false, later = 0 } = {}) {
    const link = linkOf(row);
    if (!wide.matches) return location.assign(link.href);
    detail().inert = true;
    mark(row.dataset.id);
    history.replaceState(null, "", `#${row.dataset.id}`);
    clearTimeout(soon);
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
    const row = step(by);
    if (!row) return say(by > 0 ? words.end : words.begin);
    linkOf(row).focus({ preventScroll: true });
    open(row, { later: 90 });
  });

  document.addEventListener("click", (event) => {
    const move = event.target.closest("[data-move]");
    if (move) {
      const row = step(Number(move.dataset.move));
      return row ? open(row, { focus: true }) : say(move.dataset.move > 0 ? words.end : words.begin);
    }
    if (event.target.closest("[data-reload]")) return reload();
    if (event.target.closest("[data-again]")) return findRow(current) && open(findRow(current), { focus: true });
    const link = event.target.closest(".request[data-id] > .request-link");
    if (!link || !wide.matches || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    // Enter on a row means to read it; a click may just as well be followed by j and k.
    open(link.parentElement, { focus: event.detail === 0 });
  });

  function reload() {
    if (!inbox) return location.reload();
    const row = findRow(current);
    // Another one is on its way already.
    if (detail().dataset.id !== current) return;
    const scroll = $(".detail-scroll", detail())?.scrollTop ?? 0;
    // Its row may have left the list: it is still what is being read.
    const url = row ? linkOf(row).href : $("form", detail()).action;
    load(url, { scroll, focus: detail().contains(document.activeElement) });
  }

  /* ---- Something was done: say it, offer the way back, go on ---- */
  const undoable = [];
  const relayed = new WeakSet();
  let movesOn = false;

  document.addEventListener("holdpoint:done", (event) => {
    const done = event.detail;
    if (!inbox) return;
    movesOn = done.left;
    if (done.undo && done.seconds > 0) {
      const url = `${page.dataset.live.replace(/live\/$/, "")}${done.id}/?${page.dataset.query}`;
      undoable.push({ ...done, url, end: performance.now() + done.seconds * 1000 });
      say(page.dataset.keys === "on" ? `${done.told} ${words.undoKey}` : done.told);
    } else if (done.told) {
      say(done.told);
    }
    showToast(done.undo ? null : done.told);
    tell("ask");
  });

  document.addEventListener("htmx:beforeRequest", ({ target: form }) => {
    // Whoever has gone on meanwhile took the form off the page: what it did is told all the same.
    if (relayed.has(form)) return;
    relayed.add(form);
    form.addEventListener("holdpoint:done", ({ detail: done }) => form.isConnected || tell("done", { ...done, left: false }));
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "detail") return;
    const goesOn = movesOn;
    movesOn = false;
    if (!goesOn) return;
    const next = step(1) ?? step(-1);
    if (!next || next.dataset.id === current) return;
    event.detail.shouldSwap = false;
    const isInList = list.contains(document.activeElement);
    if (isInList) linkOf(next).focus({ preventScroll: true });
    open(next, { focus: !isInList });
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    if (!inbox || event.detail.target?.id !== "detail") return;
    const answered = detail();
    showPosition();
    const wrong = $("[autofocus], .form-summary, [aria-invalid]", answered) ?? $(".banner:not(.banner-good)", answered);
    if (wrong?.matches(".banner, .form-summary")) wrong.tabIndex = -1;
    (wrong ?? answered).focus({ preventScroll: !wrong });
    if (wrong?.matches(".banner")) $(".detail-scroll", answered).scrollTop = 0;
  });
  document.addEventListener("htmx:sendError", () => fail());
  document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => fail(xhr.status === 401 ? xhr.responseText : ""));

  const toast = document.getElementById("toast");
  let hiding = 0;

  function findUndo() {
    while (undoable.length && undoable.at(-1).end <= performance.now()) undoable.pop();
    return undoable.at(-1);
  }

  function showToast(told = null) {
    clearTimeout(hiding);
    const last = told === null ? findUndo() : null;
    if (!last && !told) {
      if (toast.contains(document.activeElement)) ($("[aria-current]", list) ?? document.getElementById("list-title")).focus();
      toast.hidden = true;
      return;
    }
    const left = $("[data-left]", toast);
    $("[data-told]", toast).textContent = last ? last.told : told;
    $("[data-undo]", toast).hidden = !last;
    left.textContent = last ? left.dataset.left.replace("{s}", Math.ceil((last.end - performance.now()) / 1000)) : "";
    toast.hidden = false;
    hiding = setTimeout(() => showToast(), last ? 250 : 4000);
  }

  async function undo() {
    const last = findUndo();
    undoable.pop();
    const body = new FormData();
    body.set("do", "undo");
    body.set("csrfmiddlewaretoken", $("[name=csrfmiddlewaretoken]").value);
    try {
      const answer = await fetch(last.url, { method: "POST", headers, body });
      if (answer.status >= 500 || answer.status === 401) throw new Error(answer.status);
      const html = await answer.text();
      mark(last.id);
      place(html);
      say(answer.ok ? words.undone : "");
      showToast(answer.ok ? words.undone : null);
      detail().focus({ preventScroll: true });
      tell("ask");
    } catch {
      undoable.push(last);
      fail();
    }
  }

  document.addEventListener("holdpoint:undo", (event) => {
    if (!toast || !findUndo()) return;
    event.preventDefault();
    undo();
  });
  toast?.querySelector("[data-undo]").addEventListener("click", () => findUndo() && undo());

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
      sessionStorage.setItem("holdpoint:order", JSON.stringify(order.map((row) => linkOf(row).getAttribute("href"))));
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
  if (inbox && wide.matches && asked && findRow(asked)) open(findRow(asked));
})();
