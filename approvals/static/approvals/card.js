/* One request, in the pane or on its own page: drafts, what is still missing where the risk is high, how long it can still
   be undone, and which one is next. */
(() => {
  "use strict";

  const find = () => document.querySelector("#detail[data-id], [data-one]");
  const formOf = (card) => (card.matches("form") ? card : card.querySelector("form"));

  /* ---- Drafts: what is typed stays in this tab until it was taken. Never a password. ---- */
  const OURS = new Set(["csrfmiddlewaretoken", "version", "seen", "key", "saw"]);
  const keyOf = (card) => `holdpoint:draft:${card.dataset.id}`;
  const begun = new WeakMap();

  function listFields(form) {
    return [...form.elements].filter(
      (one) => one.name && !OURS.has(one.name) && !["password", "submit", "button", "fieldset"].includes(one.type),
    );
  }

  function read(form) {
    const typed = [];
    for (const one of listFields(form)) {
      if (one.type === "checkbox" || one.type === "radio") typed.push([one.name, one.value, one.checked]);
      else typed.push([one.name, one.value]);
    }
    return JSON.stringify(typed);
  }

  /** What the card was like, to tell later whether something was done to it. */
  const describe = (card) => [card.dataset.version, card.dataset.status, card.querySelectorAll(".timeline > li").length].join();

  function store(card) {
    const form = formOf(card);
    const typed = read(form);
    card.dispatchEvent(new CustomEvent("holdpoint:typed", { bubbles: true }));
    try {
      if (typed === begun.get(form)) sessionStorage.removeItem(keyOf(card));
      else sessionStorage.setItem(keyOf(card), JSON.stringify({ typed, at: describe(card) }));
    } catch {
      // A browser that keeps nothing: then it is on the page alone.
    }
  }

  function load(card) {
    try {
      return JSON.parse(sessionStorage.getItem(keyOf(card)));
    } catch {
      return null;
    }
  }

  function fill(form, typed) {
    const waiting = new Map();
    for (const [name, value, checked] of JSON.parse(typed)) {
      const key = checked === undefined ? name : `${name}=${value}`;
      waiting.set(key, [...(waiting.get(key) ?? []), [value, checked]]);
    }
    for (const one of listFields(form)) {
      const isTick = one.type === "checkbox" || one.type === "radio";
      const [value, checked] = waiting.get(isTick ? `${one.name}=${one.value}` : one.name)?.shift() ?? [];
      if (value === undefined) continue;
      if (isTick) one.checked = checked;
      else if (one.type !== "hidden") one.value = value; // which says that a row is there
    }
    return [...waiting.values()].some((left) => left.some(([value, checked]) => (checked === undefined ? value : checked)));
  }

  /** Rows of a list that were added are not in a fresh form: the server draws it with them. */
  function fetchWithRows(form, typed) {
    const values = { do: "keep", csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken?.value };
    for (const name of ["version", "seen"]) values[name] = form.elements[name]?.value;
    for (const [name, value, checked] of JSON.parse(typed)) {
      if (checked !== false) values[name] = name in values ? [values[name], value].flat() : value;
    }
    window.htmx?.ajax("POST", form.action, { target: "#detail", swap: "outerHTML", values });
  }

  function restore(card) {
    const form = formOf(card);
    begun.set(form, read(form));
    const draft = load(card);
    if (card.hasAttribute("data-answered")) {
      // The server gave back what was posted: that is what is typed now.
      const hasWords = [...form.querySelectorAll("textarea")].some((one) => one.value.trim());
      if (draft || hasWords || card.querySelector("[aria-invalid]")) begun.set(form, "");
      return store(card);
    }
    if (!draft) return;
    if (draft.sent && draft.at !== describe(card)) return sessionStorage.removeItem(keyOf(card));
    if (fill(form, draft.typed) && card.id === "detail") fetchWithRows(form, draft.typed);
  }

  document.addEventListener("input", (event) => {
    const card = event.target.closest("#detail[data-id], [data-one]");
    if (!card) return;
    store(card);
    showGates(card);
  });
  // A page of its own is left when its form is sent; the next one tells whether it was taken.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-one]") || event.defaultPrevented) return;
    const draft = load(event.target);
    if (draft) sessionStorage.setItem(keyOf(event.target), JSON.stringify({ ...draft, sent: true }));
  });
  document.addEventListener("holdpoint:done", (event) => {
    try {
      sessionStorage.removeItem(`holdpoint:draft:${event.detail.id}`);
    } catch {
      // as above
    }
  });

  /* ---- High risk: the change has to have been on screen; what is missing is marked, and led to. ---- */
  let watcher = null;

  function watchChange(card) {
    watcher?.disconnect();
    const box = formOf(card).elements.saw;
    if (!box || box.checked) return;
    const rows = [...card.querySelectorAll("[data-change] .diff tbody tr")];
    const unseen = new Set(rows.length ? rows : card.querySelectorAll(".holdline"));
    watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) unseen.delete(entry.target);
      if (unseen.size) return;
      watcher.disconnect();
      box.checked = true;
      showGates(card);
    });
    for (const one of unseen) watcher.observe(one);
  }

  function showGates(card) {
    const fields = formOf(card).elements;
    const met = { saw: fields.saw?.checked, reason: fields.reason?.value.trim(), password: fields.password?.value };
    for (const gate of card.querySelectorAll("[data-gate]")) gate.classList.toggle("is-met", Boolean(met[gate.dataset.gate]));
    const isOpen = !card.querySelector("[data-gate]:not(.is-met)");
    for (const button of card.querySelectorAll("[data-gated]:not([disabled])")) {
      if (isOpen) button.removeAttribute("aria-disabled");
      else button.setAttribute("aria-disabled", "true");
    }
  }

  document.addEventListener(
    "click",
    (event) => {
      const gated = event.target.closest?.("[data-gated][aria-disabled]");
      if (!gated) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const missing = gated.closest("form").querySelector("[data-gate]:not(.is-met)").dataset.gate;
      if (missing === "saw") gated.closest("form").querySelector("[data-change]")?.scrollIntoView({ block: "center" });
      gated.form.elements[missing]?.focus();
    },
    true,
  );

  /* ---- How long it can still be undone, told by the server's clock. ---- */
  function countDown(card) {
    const banner = card.querySelector("[data-undo-until]");
    const left = banner?.querySelector("[data-left]");
    if (!left) return;
    const end = performance.now() + Number(banner.dataset.seconds) * 1000;
    const tick = () => {
      const seconds = Math.ceil((end - performance.now()) / 1000);
      if (!banner.isConnected) return;
      if (seconds <= 0) {
        left.textContent = "";
        banner.querySelector("button").hidden = true;
        return;
      }
      left.textContent = left.dataset.left.replace("{s}", seconds);
      setTimeout(tick, 250);
    };
    tick();
  }

  /* ---- On its own page it knows its place in the list that it was opened from. ---- */
  function showNeighbours(alone) {
    let order = [];
    try {
      order = JSON.parse(sessionStorage.getItem("holdpoint:order")) ?? [];
    } catch {
      // Then it is a page without neighbours.
    }
    const at = order.findIndex((href) => href.split("?")[0] === location.pathname);
    if (at < 0) return;
    for (const [name, href] of [["previous", order[at - 1]], ["next", order[at + 1]]]) {
      alone.dataset[name] ||= href ?? "";
      for (const link of document.querySelectorAll(`[data-step="${name}"]`)) {
        if (!alone.dataset[name]) continue;
        link.href = alone.dataset[name];
        link.hidden = false;
      }
    }
    alone.querySelector("[data-position]").textContent ||= document.getElementById("words").dataset.position.replace("{n}", at + 1).replace("{all}", order.length);
  }

  function begin() {
    const card = find();
    if (!card || !formOf(card)) return;
    restore(card);
    watchChange(card);
    showGates(card);
    countDown(card);
  }

  document.addEventListener("holdpoint:placed", begin);
  document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target?.id === "detail" && begin());
  begin();
  if (find()?.matches("[data-one]")) showNeighbours(find());
})();
