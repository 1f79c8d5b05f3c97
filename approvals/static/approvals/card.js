/* One request, in the pane or on its own page: what is on its way, what is still missing where the risk is high, how long
   it can still be undone, and which one is next. */
(() => {
  "use strict";

  const find = () => document.querySelector("#detail[data-id], [data-one]");
  const formOf = (card) => (card.matches("form") ? card : card.querySelector("form"));

  /* ---- On its way: that is seen. ---- */
  function setBusy(form, isBusy) {
    if (isBusy) form.setAttribute("aria-busy", "true");
    else form.removeAttribute("aria-busy");
  }

  document.addEventListener("htmx:beforeSend", ({ target }) => target.matches?.(".detail-form") && setBusy(target, true));
  for (const name of ["htmx:beforeOnLoad", "htmx:afterRequest"]) {
    document.addEventListener(name, ({ target }) => target.matches?.(".detail-form") && setBusy(target, false));
  }
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-one], [data-bulk]") && !event.defaultPrevented) setBusy(event.target, true);
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("[data-one], [data-bulk]")) setBusy(form, false);
  });

  /* ---- Whom it could be handed on to is asked for when that is opened, until the answer has come. ---- */
  document.addEventListener("htmx:beforeRequest", (event) => {
    const list = event.target;
    if (!list.matches?.("select[hx-get]")) return;
    if (list.hasAttribute("data-came") || !list.closest("details").open) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", ({ detail: { target: list } }) => {
    if (list?.matches("select[hx-get]")) list.dataset.chosen = list.value;
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target: list } }) => {
    if (!list?.matches("select[hx-get]")) return;
    list.dataset.came = "";
    // Who was chosen before stood there by their username alone.
    const last = new Map([...list.options].map((option) => [option.value, option]));
    for (const option of [...list.options]) if (last.get(option.value) !== option) option.remove();
    list.value = list.dataset.chosen;
  });

  /* ---- High risk: all of the change has to have been on the screen; what is missing is marked, and led to. ---- */
  let watched = null;
  let looking = 0;

  function watchChange(card) {
    const box = formOf(card).elements.saw;
    const change = card.querySelector("[data-change] .diff tbody") ?? card.querySelector(".holdline");
    watched = box && change && !box.checked ? { card, box, change, seen: [] } : null;
    lookSoon();
  }

  // A page that is not shown draws no frame, and so shows nothing to anybody.
  function lookSoon() {
    if (watched) looking ||= requestAnimationFrame(look);
  }

  /** What of the change is neither scrolled away nor behind the bar is seen now. */
  function look() {
    looking = 0;
    if (!watched?.change.isConnected) return;
    const { card, box, change } = watched;
    const { top, height } = change.getBoundingClientRect();
    const edges = [".detail-scroll", ".decision-bar"].map((one) => card.querySelector(one)?.getBoundingClientRect());
    const from = Math.max(top, edges[0]?.top ?? 0, 0) - top;
    const to = Math.min(top + height, edges[0]?.bottom ?? innerHeight, edges[1]?.top ?? innerHeight, innerHeight) - top;
    if (to <= from) return;
    watched.seen = join(watched.seen, from / height, to / height);
    const [first] = watched.seen;
    if (watched.seen.length > 1 || (first[0] + 1 - first[1]) * height > 2) return;
    watched = null;
    box.checked = true;
    showGates(card);
  }

  /** Stretches of it, as parts of its height: together with one more, which may close a gap. */
  function join(stretches, from, to) {
    const touching = stretches.filter(([start, end]) => start <= to && end >= from);
    const apart = stretches.filter((one) => !touching.includes(one));
    const starts = touching.map(([start]) => start);
    const ends = touching.map(([, end]) => end);
    return [...apart, [Math.min(from, ...starts), Math.max(to, ...ends)]];
  }

  document.addEventListener("scroll", lookSoon, { capture: true, passive: true });
  addEventListener("resize", lookSoon);

  function showGates(card) {
    const form = formOf(card);
    const { saw, reason, password } = form.elements;
    const buttons = [...card.querySelectorAll("[data-gated]:not([disabled])")];
    // A ready reason is one for its own answer.
    const hasReason = ({ value }) => reason?.value.trim() || form.querySelector(`[name="preset-${CSS.escape(value)}"]:checked:not([value=""])`);
    const met = { saw: saw?.checked, reason: buttons.some(hasReason), password: password?.value };
    const gates = [...card.querySelectorAll("[data-gate]")];
    for (const gate of gates) gate.classList.toggle("is-met", Boolean(met[gate.dataset.gate]));
    const isOpen = gates.every((gate) => gate.matches(".is-met"));
    for (const button of buttons) {
      if (isOpen && (!gates.length || hasReason(button))) button.removeAttribute("aria-disabled");
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
      const missing = gated.closest("form").querySelector("[data-gate]:not(.is-met)")?.dataset.gate ?? "reason";
      if (missing === "saw") gated.closest("form").querySelector("[data-change]")?.scrollIntoView({ block: "center" });
      gated.form.elements[missing]?.focus();
    },
    true,
  );

  /* ---- How long it can still be undone, one or many, told by the server's clock. ---- */
  function countDown(banner) {
    const left = banner.querySelector("[data-left]");
    const end = performance.now() + Number(banner.dataset.seconds) * 1000;
    const tick = () => {
      const seconds = Math.ceil((end - performance.now()) / 1000);
      if (!banner.isConnected) return;
      if (seconds <= 0) return closeUndo(banner, left);
      left.textContent = left.dataset.left.replace("{s}", seconds);
      setTimeout(tick, 250);
    };
    tick();
  }

  function closeUndo(banner, left) {
    const undo = banner.querySelector("[value=undo]");
    const had = undo === document.activeElement;
    if (undo) undo.hidden = true;
    left.parentElement.textContent = document.getElementById("words").dataset.effect;
    if (!had) return;
    banner.tabIndex = -1;
    (banner.querySelector("[data-step]:not([hidden])") ?? banner).focus();
  }

  /* ---- On its own page it knows its place in the list that it was opened from. ---- */
  function showNeighbours(alone) {
    let order = [];
    try {
      order = JSON.parse(sessionStorage.getItem(`holdpoint:order:${document.getElementById("words").dataset.person}`)) ?? [];
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
    for (const banner of document.querySelectorAll("[data-undo-until]")) countDown(banner);
    const card = find();
    if (!card || !formOf(card)) return;
    watchChange(card);
    showGates(card);
  }

  document.addEventListener("holdpoint:typed", ({ target }) => showGates(target));
  document.addEventListener("holdpoint:placed", begin);
  document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target?.id === "detail" && begin());
  begin();
  if (find()?.matches("[data-one]")) showNeighbours(find());
})();
