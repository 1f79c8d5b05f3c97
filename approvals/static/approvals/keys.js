/* Keys, menus, dialogs and the theme, on every page of the inbox. All of it is a shortcut: without it the pages work.
   What a key does stands at the thing it does it to (data-hotkey), so that a page that lacks the thing lacks the key.
   Keys that belong to the list are told to it by events ("holdpoint:move", "holdpoint:pick", "holdpoint:undo"). */
(() => {
  "use strict";

  const page = document.querySelector("[data-keys]");
  const sheet = document.getElementById("keys");
  const say = (name, detail) => document.dispatchEvent(new CustomEvent(`holdpoint:${name}`, { detail, cancelable: true }));
  const areOn = () => page?.dataset.keys === "on";
  const isTyping = (at) => at.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], iframe");
  const isShown = (one) => one.checkVisibility?.({ visibilityProperty: true }) ?? one.offsetParent !== null;

  for (const one of document.querySelectorAll("[data-open-keys], [data-needs-script]")) one.hidden = false;

  /* ---- What is posted in passing: nothing on the page waits for it. ---- */
  function post(form, button) {
    const headers = { "HX-Request": "true" };
    return fetch(form.action, { method: "POST", headers, body: new FormData(form, button) }).catch(() => {});
  }

  /* ---- Theme: shown at once, and kept by the server, so that the next page begins with it. ---- */
  const THEMES = ["system", "light", "dark"];

  function changeTheme(form) {
    const button = form.querySelector("button");
    const theme = button.value;
    post(form, button);
    // A host's page may mean something of its own by data-theme.
    const ours = document.body.classList.contains("holdpoint") ? [document.documentElement] : [];
    for (const one of [...ours, ...document.querySelectorAll(".holdpoint[data-theme], .holdpoint:not(body)")]) {
      if (theme === "system") delete one.dataset.theme;
      else one.dataset.theme = theme;
    }
    button.value = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    form.querySelector("[data-theme-name]").textContent = button.dataset[theme];
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-theme-form]")) return;
    event.preventDefault();
    changeTheme(event.target);
  });

  /* ---- The sheet of keys, with its switch. ---- */
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-keys]")) sheet?.showModal();
    if (event.target === sheet) sheet.close(); // beside it
  });

  document.getElementById("keys-on")?.addEventListener("change", async (event) => {
    const body = new FormData(event.target.form);
    body.set("shortcuts", event.target.checked ? "on" : "off");
    turnKeys(event.target.checked);
    const failed = document.getElementById("keys-failed");
    failed.hidden = true;
    const answer = await fetch(event.target.form.action, { method: "POST", headers: { "HX-Request": "true" }, body }).catch(() => null);
    if (answer?.ok && !answer.redirected) return;
    // Else they would be as before on the next page.
    event.target.checked = !event.target.checked;
    turnKeys(event.target.checked);
    failed.hidden = false;
  });

  function turnKeys(areOn) {
    page.dataset.keys = areOn ? "on" : "off";
    for (const key of document.querySelectorAll(":not(.key-list *) > .key")) key.hidden = !areOn;
  }

  /* ---- Menus are <details>: one at a time; Escape and a click elsewhere close them. ---- */
  const findMenu = () => document.querySelector("details.menu[open]");

  function closeMenus(but) {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== but) menu.open = false;
  }

  document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));

  function openMenu(summary) {
    const menu = summary.parentElement;
    closeMenus(menu);
    menu.open = !menu.open;
    if (menu.open) menu.querySelector(".menu-panel :is(button, input, select, textarea, a):not([disabled])")?.focus();
  }

  function leave() {
    const menu = findMenu();
    if (menu) {
      const had = menu.contains(document.activeElement);
      menu.open = false;
      if (had) menu.querySelector("summary").focus();
      return true;
    }
    if (isTyping(document.activeElement)) {
      // Out of a field, so that keys work again; what was typed stays.
      (document.activeElement.closest(".detail, [data-one], .list")?.querySelector(".detail-scroll") ?? document.activeElement).focus();
      document.activeElement.blur();
      return true;
    }
    return !say("escape");
  }

  /* ---- Keys ---- */
  function press(target) {
    if (target.matches("textarea, input, select")) return target.focus();
    if (target.matches("summary")) return openMenu(target);
    // The server refuses single keys where the risk is high, whatever a page says.
    const told = target.form?.elements.key;
    if (told) told.value = "1";
    target.click();
    if (told) told.value = "";
  }

  function pressNumber(number) {
    const target = findMenu()?.querySelector(`[data-number="${number}"]`);
    if (!target || target.closest("[inert]") || (target.name === "outcome" && target.closest('[data-risk="high"]'))) return false;
    press(target);
    return true;
  }

  /* The letter that is meant: a layout of other letters (Hangul, Cyrillic, Greek …) has ours on the same keys. */
  function readKey(event) {
    const [, letter] = /^Key([A-Z])$/.exec(event.code) ?? [];
    if (!letter || event.key.length !== 1 || /[ -~]|\p{Script=Latin}/u.test(event.key)) return event.key;
    return event.shiftKey ? letter : letter.toLowerCase();
  }

  function findHotkey(key) {
    const found = document.querySelectorAll(`[data-hotkey="${CSS.escape(key)}"]`);
    return [...found].find((one) => !one.disabled && !one.closest("[inert]") && isShown(one));
  }

  /** What is typed for an answer goes with whichever is pressed: the first one is led to. */
  function findAnswer(field) {
    if (!field.matches?.("textarea, input") || !field.form) return null;
    return [...field.form.querySelectorAll(".decisions :is(button, summary)")].find((one) => !one.disabled && isShown(one));
  }

  const KEYS = {
    j: () => say("move", { by: 1 }),
    k: () => say("move", { by: -1 }),
    x: () => say("pick", { isRange: false }),
    X: () => say("pick", { isRange: true }),
    u: () => !say("undo") || findHotkey("u")?.click(),
    e: () => document.querySelector(".section-body.form :is(input:not([type=hidden]), select, textarea)")?.focus(),
    "/": () => document.querySelector("input[type=search]")?.focus(),
    t: () => document.querySelector("[data-theme-form]")?.requestSubmit(),
    "?": () => sheet?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    // Safari has ended composing already when the key that ended it comes.
    if (event.isComposing || event.keyCode === 229 || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const target = event.target.dataset?.sends ? document.getElementById(event.target.dataset.sends) : findAnswer(event.target);
      if (target) event.preventDefault();
      return event.target.dataset?.sends ? target?.click() : target?.focus();
    }
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return leave() && event.preventDefault();
    if (!areOn() || isTyping(event.target)) return;
    if (/^[1-9]$/.test(event.key)) return pressNumber(event.key) && event.preventDefault();
    const key = readKey(event);
    // What is open is answered or left first: another key may decide something else than what one reads.
    const menu = findMenu();
    if (menu && !menu.querySelector(`summary[data-hotkey="${CSS.escape(key)}"]`)) return;
    const act = Object.hasOwn(KEYS, key) ? KEYS[key] : null;
    const target = act || key.length > 1 ? null : findHotkey(key);
    if (!act && !target) return;
    event.preventDefault();
    // A key that is held down moves on and on, and decides once.
    if (event.repeat && !"jk".includes(key)) return;
    if (act) act();
    else press(target);
  });
})();
