/* What was done to requests, and what was not: told in a corner of the list, with the way back while there is one. Whoever
   has gone on meanwhile is told all the same. */
(() => {
  "use strict";

  const page = document.querySelector("[data-inbox]");
  const toast = document.getElementById("toast");
  if (!page || !toast) return;

  const words = document.getElementById("words").dataset;
  const headers = { "HX-Request": "true" };
  const $ = (selector, within = document) => within.querySelector(selector);
  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(`holdpoint:${name}`, { detail }));
  const detail = () => document.getElementById("detail");

  /* ---- Done ---- */
  const undoable = [];
  let hiding = 0;

  document.addEventListener("holdpoint:done", ({ detail: done }) => {
    if (done.undo && done.seconds > 0) {
      const url = `${page.dataset.live.replace(/live\/$/, "")}${done.id}/?${page.dataset.query}`;
      undoable.push({ ...done, url, end: performance.now() + done.seconds * 1000 });
      tell("say", { text: page.dataset.keys === "on" ? `${done.told} ${words.undoKey}` : done.told });
    } else if (done.told) {
      tell("say", { text: done.told });
    }
    showToast(done.undo ? null : done.told);
  });

  function findUndo() {
    while (undoable.length && undoable.at(-1).end <= performance.now()) undoable.pop();
    return undoable.at(-1);
  }

  function showToast(told = null) {
    clearTimeout(hiding);
    const last = told === null ? findUndo() : null;
    if (!last && !told) return hide(toast);
    const left = $("[data-left]", toast);
    $("[data-told]", toast).textContent = last ? last.told : told;
    $("[data-undo]", toast).hidden = !last;
    left.textContent = last ? left.dataset.left.replace("{s}", Math.ceil((last.end - performance.now()) / 1000)) : "";
    toast.hidden = false;
    hiding = setTimeout(() => showToast(), last ? 250 : 4000);
  }

  function hide(one) {
    if (one.contains(document.activeElement)) ($("#rows [aria-current]") ?? document.getElementById("list-title")).focus();
    one.hidden = true;
  }

  /* ---- Undone ---- */
  async function undo() {
    const last = findUndo();
    undoable.pop();
    const body = new FormData();
    body.set("do", "undo");
    body.set("csrfmiddlewaretoken", $("[name=csrfmiddlewaretoken]").value);
    tell("undoing", last);
    try {
      const answer = await fetch(last.url, { method: "POST", headers, body });
      if (answer.status >= 500 || answer.status === 401 || answer.redirected) throw new Error(answer.status);
      tell("undone", { ...last, html: await answer.text() });
      if (answer.ok) tell("say", { text: words.undone });
      showToast(answer.ok ? words.undone : null);
      tell("ask");
    } catch {
      undoable.push(last);
      tell("undone", last);
    }
  }

  document.addEventListener("holdpoint:undo", (event) => {
    if (!findUndo()) return;
    event.preventDefault();
    undo();
  });
  $("[data-undo]", toast).addEventListener("click", () => findUndo() && undo());

  /* ---- Not done: whoever has gone on took the form off the page, and with it all that htmx tells of it ---- */
  const followed = new WeakSet();
  const isHere = (form) => form.isConnected && !detail().inert;

  document.addEventListener("htmx:beforeRequest", ({ target: form }) => {
    if (!form.matches?.(".detail-form") || followed.has(form)) return;
    followed.add(form);
    const { id } = detail().dataset;
    let wasHere = true;
    form.addEventListener("holdpoint:done", ({ detail: done }) => form.isConnected || tell("done", { ...done, left: false }));
    // The answer takes the place of the form, so that afterwards it is too late to look.
    // Fields of it that ask for something of their own are not what was sent.
    form.addEventListener("htmx:beforeOnLoad", ({ target }) => target === form && (wasHere = isHere(form)));
    form.addEventListener("htmx:afterRequest", ({ target, detail: { xhr } }) => {
      if (target !== form) return;
      if (xhr.status === 0) wasHere = isHere(form);
      const drawn = new DOMParser().parseFromString(xhr.responseText, "text/html");
      if (wasHere || (xhr.status >= 200 && xhr.status < 400 && drawn.getElementById("detail"))) return;
      showLost(form, id, ...explain(drawn, xhr, form));
    });
  });

  /** Why it was not taken, as the page that nobody sees would have said it. */
  function explain(drawn, xhr, form) {
    const banner = $("#detail .banner:not(.banner-good)", drawn);
    if (banner) return [$("h2", banner).textContent, $("p", banner)?.textContent ?? ""];
    if (xhr.status === 401) return [words.notTaken, xhr.responseText];
    if (xhr.status && xhr.responseURL !== form.action) return [words.notTaken, words.loggedOut];
    if (xhr.status < 400 || xhr.status >= 500) return [words.failed, ""];
    return [words.notTaken, $("#detail .field-error p", drawn)?.textContent ?? ""];
  }

  function showLost(form, id, what, why) {
    const lost = document.getElementById("lost").content.firstElementChild.cloneNode(true);
    const link = $("[data-lost]", lost);
    const title = $("[id$=-title]", form).textContent;
    $("[data-told]", lost).textContent = words.lost.replace("{title}", () => title).replace("{what}", () => what);
    $("[data-why]", lost).textContent = why;
    link.href = form.action;
    link.dataset.lost = id;
    // It stays until it was read: somebody believes that it is decided.
    lost.addEventListener("click", ({ target }) => target.closest("a, button") && setTimeout(() => (hide(lost), lost.remove())));
    toast.before(lost);
    tell("ask");
  }
})();
