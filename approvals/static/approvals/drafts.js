/* Drafts: what is typed into a request stays in this tab until it was taken, for whoever typed it and nobody else. Never
   a password. A card that has one says so (data-typed). */
(() => {
  "use strict";

  // The next one to log in in this tab may be another person.
  const person = document.getElementById("words")?.dataset.person;
  const OURS = new Set(["csrfmiddlewaretoken", "version", "seen", "key", "saw"]);
  const find = () => document.querySelector("#detail[data-id], [data-one]");
  const formOf = (card) => (card.matches("form") ? card : card.querySelector("form"));
  const keyOf = (id) => `holdpoint:draft:${person}:${id}`;
  /** What stood in a form before anybody typed. */
  const begun = new WeakMap();
  /** What the server showed in it when typing began: a field that is as it was shown was not typed in. */
  const offered = new WeakMap();
  /** What was typed into rows that a form does not have, or not yet. */
  const homeless = new WeakMap();
  /** What was typed when a form was sent, and what has been typed since. */
  const sent = new WeakMap();
  let later = [];

  /* ---- Where it is kept ---- */
  const memory = new Map();

  function keep(key, draft) {
    memory.set(key, JSON.stringify(draft));
    try {
      sessionStorage.setItem(key, memory.get(key));
    } catch {
      // A browser that keeps nothing: then it lasts as long as the page.
    }
  }

  function forget(key) {
    memory.delete(key);
    try {
      sessionStorage.removeItem(key);
    } catch {
      // as above
    }
  }

  function look(key) {
    try {
      return JSON.parse(sessionStorage.getItem(key) ?? memory.get(key) ?? null);
    } catch {
      return JSON.parse(memory.get(key) ?? null);
    }
  }

  /* ---- From a form and back ---- */
  const isTick = (one) => one.type === "checkbox" || one.type === "radio";

  function listFields(form) {
    return [...form.elements].filter(
      (one) => one.name && !OURS.has(one.name) && !["password", "submit", "button", "fieldset"].includes(one.type),
    );
  }

  const write = (one) => (isTick(one) ? [one.name, one.value, one.checked] : [one.name, one.value]);
  const read = (form) => JSON.stringify([...listFields(form).map(write), ...(homeless.get(form) ?? [])]);

  const offer = (one) => (isTick(one) ? [one.name, one.value, one.defaultChecked] : [one.name, offerText(one)]);

  function offerText(one) {
    if (!one.matches("select")) return one.defaultValue;
    return ([...one.options].find((option) => option.defaultSelected) ?? one.options[0])?.value ?? "";
  }

  /** What somebody was quick enough to type before this file came. */
  function listEarly(form) {
    const typed = listFields(form).filter((one) => (isTick(one) ? one.checked !== one.defaultChecked : one.value !== one.defaultValue));
    return typed.filter((one) => !one.matches("select")).map(write);
  }

  /** What the card was like, to tell later whether something was done to it. */
  const describe = (card) => [card.dataset.version, card.dataset.status, card.querySelectorAll(".timeline > li").length].join();

  function store(card) {
    const form = formOf(card);
    const typed = read(form);
    const isTyped = typed !== begun.get(form);
    card.toggleAttribute("data-typed", isTyped);
    if (isTyped) keep(keyOf(card.dataset.id), { typed, offered: offered.get(form), at: describe(card) });
    else forget(keyOf(card.dataset.id));
    card.dispatchEvent(new CustomEvent("holdpoint:typed", { bubbles: true }));
  }

  /** Put it where it was typed; what finds no place is what is left. */
  function fill(form, typed) {
    const waiting = new Map();
    for (const one of JSON.parse(typed)) {
      const key = one.length === 2 ? one[0] : `${one[0]}=${one[1]}`;
      waiting.set(key, [...(waiting.get(key) ?? []), one]);
    }
    for (const one of listFields(form)) {
      const [, value, checked] = waiting.get(isTick(one) ? `${one.name}=${one.value}` : one.name)?.shift() ?? [];
      if (value === undefined) continue;
      if (isTick(one)) one.checked = checked;
      else if (one.type !== "hidden") choose(one, value); // which says that a row is there
    }
    const left = [...waiting.values()].flat();
    return left.some(([, value, checked]) => (checked === undefined ? value : checked)) ? left : [];
  }

  function choose(field, value) {
    // Its options come when they are asked for.
    const isMissing = field.matches("select[hx-get]") && ![...field.options].some((option) => option.value === value);
    if (isMissing) field.add(new Option(value, value));
    field.value = value;
  }

  /** Rows of a list that were added are not in a fresh form: the server draws it with them. */
  async function fetchRows(card) {
    const form = formOf(card);
    const fields = form.elements.version?.closest(".section-body");
    if (!fields) return;
    const body = new FormData();
    body.set("do", "keep");
    for (const name of ["csrfmiddlewaretoken", "version", "seen"]) body.set(name, form.elements[name]?.value ?? "");
    for (const [name, value, checked] of JSON.parse(read(form))) if (checked !== false) body.append(name, value);
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", headers: { "HX-Request": "true" }, body });
      const drawn = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = drawn.querySelector("#detail [name=version]")?.closest(".section-body");
      if (!next || !fields.isConnected) return;
      // Another state of it than the one on the screen: the rows stay in the draft, and the news tell of the change.
      const isSame = (name) => (next.querySelector(`[name=${name}]`)?.value ?? "") === (form.elements[name]?.value ?? "");
      if (!isSame("version") || !isSame("seen")) return;
      const now = read(form);
      const at = fields.contains(document.activeElement) ? document.activeElement.id : "";
      fields.replaceWith(document.adoptNode(next));
      homeless.set(form, fill(form, now));
      if (at) document.getElementById(at)?.focus({ preventScroll: true });
      store(card);
    } catch {
      // They stay in the draft, for the next time.
    }
  }

  function restore(card, since) {
    const form = formOf(card);
    begun.set(form, read(form));
    const draft = look(keyOf(card.dataset.id));
    // A form that came back holds what was typed: what it was begun with stands in the draft.
    const isBack = card.hasAttribute("data-answered");
    offered.set(form, isBack ? draft?.offered : JSON.stringify(listFields(form).map(offer)));
    if (isBack) {
      // The server gave back what was posted: that is what is typed now.
      const hasWords = [...form.querySelectorAll("textarea")].some((one) => one.value.trim());
      if (draft || hasWords || card.querySelector("[aria-invalid]")) begun.set(form, "");
      homeless.set(form, fill(form, JSON.stringify(since)));
      return store(card);
    }
    const early = listEarly(form);
    const isOld = draft?.sent && draft.at !== describe(card);
    if (isOld) forget(keyOf(card.dataset.id));
    if (draft && !isOld) homeless.set(form, fill(form, listTyped(draft)));
    if (early.length) {
      begun.set(form, "");
      fill(form, JSON.stringify(early));
      store(card);
    }
    card.toggleAttribute("data-typed", read(form) !== begun.get(form));
    if (homeless.get(form)?.length) fetchRows(card);
  }

  /** What was typed: the rest is as it is now, somebody else may have filled it in. */
  function listTyped({ typed, offered: shown }) {
    const after = JSON.parse(typed);
    const before = JSON.parse(shown ?? "[]");
    const tell = (fields, name) => JSON.stringify(fields.filter((one) => one[0] === name));
    const names = [...new Set(after.map(([name]) => name))].filter((name) => tell(after, name) !== tell(before, name));
    return JSON.stringify(after.filter(([name]) => names.includes(name)));
  }

  function begin(since = []) {
    const card = find();
    if (card && formOf(card)) restore(card, since);
  }

  document.addEventListener("input", (event) => {
    const card = event.target.closest("#detail[data-id], [data-one]");
    if (card) store(card);
  });
  // A page of its own is left when its form is sent; the next one tells whether it was taken.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-one]") || event.defaultPrevented) return;
    const key = keyOf(event.target.dataset.id);
    const draft = look(key);
    if (draft) keep(key, { ...draft, sent: true });
  });
  // The answer takes the place of the form: what was typed since it was sent is put into the new one.
  const listLater = (form) => {
    const before = new Set(JSON.parse(sent.get(form) ?? "[]").map((one) => JSON.stringify(one)));
    return JSON.parse(read(form)).filter((one) => !before.has(JSON.stringify(one)));
  };
  document.addEventListener("htmx:beforeRequest", ({ target }) => target.matches?.(".detail-form") && sent.set(target, read(target)));
  document.addEventListener("htmx:beforeSwap", ({ detail: { requestConfig } }) => {
    later = sent.has(requestConfig.elt) ? listLater(requestConfig.elt) : [];
  });
  document.addEventListener("holdpoint:done", ({ target, detail: { id } }) => {
    const typed = sent.has(target) ? listLater(target) : [];
    if (typed.length) keep(keyOf(id), { typed: JSON.stringify(typed) });
    else forget(keyOf(id));
  });
  document.addEventListener("holdpoint:placed", () => begin());
  document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target?.id === "detail" && begin(later));
  begin();
})();
